"""What happens to the month's catalog, day by day, as SQL that Spark runs."""

from __future__ import annotations

BEGINNING = (
    "CREATE NAMESPACE sales COMMENT 'what was ordered'",
    "CREATE NAMESPACE crm",
    "CREATE NAMESPACE ops",
    """CREATE TABLE sales.orders USING iceberg PARTITIONED BY (months(ordered_at)) AS
SELECT id AS order_id, id % 97 AS customer_id, 'new' AS status,
  timestampadd(HOUR, id, TIMESTAMP'2026-06-01 00:00:00') AS ordered_at,
  CAST(10 + id % 90 AS DECIMAL(10, 2)) AS amount FROM range(0, 1200, 1, 2)""",
    """CREATE TABLE sales.customers USING iceberg AS
SELECT id AS customer_id, concat('Customer ', id) AS name FROM range(0, 97, 1, 1)""",
    """CREATE TABLE sales.returns USING iceberg AS
SELECT id * 7 AS order_id, 'broken' AS reason FROM range(0, 60, 1, 1)""",
    """CREATE TABLE crm.leads USING iceberg AS
SELECT id AS lead_id, concat('lead ', id) AS name FROM range(0, 250, 1, 1)""",
    """CREATE TABLE ops.events USING iceberg AS
SELECT id AS event_id, concat('node-', id % 5) AS host FROM range(0, 400, 1, 1)""",
    "CREATE VIEW sales.large_orders AS SELECT * FROM sales.orders WHERE amount > 80",
)

GROWTH = (
    "ALTER TABLE sales.orders ADD COLUMN discount DECIMAL(4, 2) COMMENT 'agreed by phone'",
    """INSERT INTO sales.orders SELECT id, id % 97, 'new',
  timestampadd(HOUR, id, TIMESTAMP'2026-06-01 00:00:00'), 25.00, 0.10
FROM range(1200, 1300, 1, 1)""",
    "UPDATE sales.orders SET status = 'paid' WHERE order_id < 300",
    "ALTER TABLE ops.events ADD PARTITION FIELD bucket(4, host)",
    "ALTER TABLE ops.events SET TBLPROPERTIES ('team' = 'operations')",
    """CREATE TABLE crm.campaigns USING iceberg TBLPROPERTIES ('format-version' = '3') AS
SELECT id AS campaign_id, id * 1000 AS budget FROM range(0, 30, 1, 1)""",
)

ORDER = (
    "ALTER TABLE crm.leads RENAME TO sales.prospects",
    "ALTER TABLE sales.customers RENAME TO sales.clients",
    "ALTER TABLE sales.clients RENAME COLUMN name TO full_name",
    "ALTER TABLE sales.orders CREATE TAG june",
    """CALL prod.system.rewrite_data_files(
  table => 'sales.orders', options => map('rewrite-all', 'true'))""",
    """CALL prod.system.expire_snapshots(
  table => 'sales.orders', older_than => TIMESTAMP'2100-01-01 00:00:00', retain_last => 1)""",
    """CREATE OR REPLACE VIEW sales.large_orders AS
SELECT order_id, amount FROM sales.orders WHERE amount > 90""",
)

MISTAKES = (
    "DROP TABLE sales.returns PURGE",
    "DROP TABLE ops.events PURGE",
    "DROP NAMESPACE ops",
)

ANOTHER_START = (
    "CREATE NAMESPACE ops",
    """CREATE TABLE ops.events USING iceberg AS
SELECT id AS event_id, 'INFO' AS level FROM range(0, 80, 1, 1)""",
    "DELETE FROM sales.orders WHERE status = 'paid' AND order_id % 10 = 0",
)

LATE_ORDERS = """INSERT INTO sales.orders SELECT id, id % 97, 'new',
  TIMESTAMP'2026-07-20 00:00:00', 15.00, NULL FROM range(1300, 1350, 1, 1)"""
