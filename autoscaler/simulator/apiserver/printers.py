"""A printer column: how one column of the server-side table is called and typed."""

import msgspec


class PrinterColumn(msgspec.Struct, frozen=True):
    """One column; `wide` ones show only with `-o wide`. `path` is a CRD's JSONPath."""

    name: str
    type: str = "string"
    wide: bool = False
    description: str = ""
    path: str = ""
    format: str = ""
