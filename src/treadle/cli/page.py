"""The page of `treadle serve`, loaded when the first browser comes."""

from treadle.web.serve import serve as serve
from treadle.web.site import Site as Site
