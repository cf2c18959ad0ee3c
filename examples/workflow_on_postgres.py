"""A workflow on PostgreSQL that commits together with your own tables.

DATABASE_URL=postgresql://user@host/database python examples/workflow_on_postgres.py

It creates the table `invoices`, and Redrive's tables in the schema `redrive`.
"""

from __future__ import annotations

import asyncio
import os
import sys

import asyncpg

from redrive import Context, Redrive

URL = os.environ.get("DATABASE_URL", "")
if not URL:
    sys.exit(__doc__)

app = Redrive(URL)


@app.task
async def render(invoice: int) -> str:
    return f"invoice {invoice}: 42.00"


@app.task
async def book(context: Context, text: str) -> None:
    """The change and the completion of the step commit together: exactly once, no matter what crashes."""
    connection = await asyncpg.connect(URL)
    try:
        async with connection.transaction():
            await connection.execute("UPDATE invoices SET text = $1 WHERE id = $2", text, context.run_input)
            await context.complete(text, connection=connection)
    finally:
        await connection.close()


invoicing = app.workflow("invoicing", [render, book])


async def main() -> None:
    connection = await asyncpg.connect(URL)
    await connection.execute("CREATE TABLE IF NOT EXISTS invoices (id serial PRIMARY KEY, text text)")
    async with app, app.worker():
        async with connection.transaction():  # the invoice and its run exist together, or not at all
            invoice = await connection.fetchval("INSERT INTO invoices DEFAULT VALUES RETURNING id")
            run = await app.start(invoicing, invoice, key=f"invoice-{invoice}", connection=connection)

        print(await run.result(timeout=30))
        print(await connection.fetchval("SELECT text FROM invoices WHERE id = $1", invoice))
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main())
