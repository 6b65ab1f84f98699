"""What a user asks for: operators on tensors.

`legalsat.operators.operator` says what one is; those here move elements without changing them.
"""

from legalsat.operators.im2col import Im2col as Im2col
from legalsat.operators.im2col import window_modes as window_modes
from legalsat.operators.moves import CONSUMERS as CONSUMERS
from legalsat.operators.moves import MATRIX_CONSUMERS as MATRIX_CONSUMERS
from legalsat.operators.moves import TCGEN05_CONSUMERS as TCGEN05_CONSUMERS
from legalsat.operators.moves import WGMMA_CONSUMERS as WGMMA_CONSUMERS
from legalsat.operators.moves import Copy as Copy
from legalsat.operators.moves import Transpose as Transpose
from legalsat.operators.moves import access_of as access_of
from legalsat.operators.moves import as_tensor as as_tensor
from legalsat.operators.moves import atom_bytes as atom_bytes
from legalsat.operators.moves import dense_like as dense_like
from legalsat.operators.moves import k_major as k_major
from legalsat.operators.moves import padded as padded
from legalsat.operators.operator import PRODUCT as PRODUCT
from legalsat.operators.operator import PROGRAM as PROGRAM
from legalsat.operators.operator import Move as Move
from legalsat.operators.operator import Operator as Operator
from legalsat.operators.operator import back as back
from legalsat.operators.operator import distance as distance
from legalsat.operators.pad import Pad as Pad

MOVES: tuple[type[Move], ...] = (Copy, Transpose, Pad, Im2col)  # whose plans are read back
