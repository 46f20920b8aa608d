"""PETSc's CG or BiCGSTAB on the 2-D Poisson problem: prints seconds an iteration.  See `bench_krylov.py`.

mpirun -n 2 python3 peer_petsc.py GRID ITERATIONS cg|bicgstab
"""

import os
import sys
import time

sys.path.append(os.environ["PETSC_DIR"] + "/lib/python3/dist-packages")
import petsc4py

petsc4py.init(sys.argv[:1])
import numpy as np
import scipy.sparse as sp
from petsc4py import PETSc

grid, iterations, method = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
comm = PETSc.COMM_WORLD
n = grid * grid
low, high = (n * (comm.rank + k) // comm.size for k in (0, 1))
second = sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(grid, grid))
rows = (sp.kron(second, sp.identity(grid)) + sp.kron(sp.identity(grid), second)).tocsr()[low:high]
parts = (rows.indptr.astype(np.int32), rows.indices.astype(np.int32), rows.data)
matrix = PETSc.Mat().createAIJ(((high - low, n), (high - low, n)), csr=parts, comm=comm)
matrix.assemble()
x, b = matrix.createVecs()
b.set(1.0)
solver = PETSc.KSP().create(comm)
solver.setOperators(matrix)
solver.setType({"cg": "cg", "bicgstab": "bcgs"}[method])
solver.getPC().setType("none")
if method == "cg":
    solver.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
solver.setTolerances(rtol=1e-300, atol=1e-300, max_it=iterations)
solver.solve(b, x)
times = []
for _ in range(3):
    x.set(0.0)
    start = time.perf_counter()
    solver.solve(b, x)
    times.append((time.perf_counter() - start) / max(solver.getIterationNumber(), 1))
if comm.rank == 0:
    print(sorted(times)[1])
