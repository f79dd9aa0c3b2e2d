"""Pictures of graphs and programs, as text, SVG and HTML; records of nodes; the table of the rules of ops."""

from oplib.torch_names import make_dir as _make_dir

from .first_nan import FirstNaN, first_nan
from .gradients import EdgeStatistics, FirstBad, GradientReport
from .graph import Graph, graph
from .groups import FunctionSummary
from .memory import MemoryReport, MemoryRow, memory
from .profile_report import ProfileReport, ProfileRow, profile
from .program_report import ProgramReport, program
from .records import NodeRecord, SavedRecord, read_nodes
from .rules import OpsTable, tabulate_rules as ops
from .text import graph_text

__all__ = [
    "EdgeStatistics",
    "FirstBad",
    "FirstNaN",
    "FunctionSummary",
    "GradientReport",
    "Graph",
    "MemoryReport",
    "MemoryRow",
    "NodeRecord",
    "OpsTable",
    "ProfileReport",
    "ProfileRow",
    "ProgramReport",
    "SavedRecord",
    "first_nan",
    "graph",
    "graph_text",
    "memory",
    "ops",
    "profile",
    "program",
    "read_nodes",
]

__dir__ = _make_dir(globals())
