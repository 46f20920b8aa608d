"""The exceptions of diffuse_trace.

Each message says what happened, where (the user's line) and what cures it.  NumPy's own exception
types are kept where NumPy raises them (ValueError for shapes, IndexError for indices, TypeError for
types), so code that catches those goes on working.
"""


class DiffuseError(Exception):
    """Base class of everything that only this package raises."""


class TracingError(DiffuseError, TypeError):
    """A value was needed while a function decorated with ``jit`` was being traced."""


class NotFiniteError(DiffuseError, FloatingPointError):
    """A task made NaN or infinity while ``DIFFUSE_CHECK=finite`` looks for it."""


class RankMismatchError(DiffuseError, RuntimeError):
    """Two ranks ran different operations, or one ended while another still communicates."""


class CommunicationError(DiffuseError, RuntimeError):
    """MPI reported an error, or a rank waited longer than the ``timeout`` setting allows."""


class LaunchError(DiffuseError, RuntimeError):
    """The MPI environment of this process is missing, incomplete or mixed."""


class ConfigError(DiffuseError, ValueError):
    """A setting has a value that cannot be understood."""


class ProgramError(DiffuseError, ValueError):
    """A program of the IR breaks one of its own rules (a fault of this package or of a kernel library)."""


class NotSupportedError(DiffuseError, NotImplementedError):
    """A function or an argument of NumPy that this package does not offer."""
