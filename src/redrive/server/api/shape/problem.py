"""What every answer looks like that is not what was asked for (RFC 9457)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class FieldProblem(BaseModel):
    at: str
    problem: str


class Problem(BaseModel):
    """`code` is for programs and stays as it is; `detail` and `hint` are for people. Some carry more."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    code: str
    detail: str
    hint: str
    request_id: str
    errors: list[FieldProblem] = []
