"""The statements of the SQL catalog: plain SQL that the databases have in common."""

from __future__ import annotations

from sqlalchemy import text

# `*` because only V1 has iceberg_type: one statement serves both.
SELECT_TABLES = text("SELECT * FROM iceberg_tables WHERE catalog_name = :catalog")
SELECT_TABLES_IN = text(
    "SELECT * FROM iceberg_tables WHERE catalog_name = :catalog AND table_namespace = :namespace"
)
SELECT_TABLE = text(
    "SELECT * FROM iceberg_tables"
    " WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :name"
)
SELECT_NAMESPACES = text(
    "SELECT table_namespace FROM iceberg_tables WHERE catalog_name = :catalog"
    " UNION SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = :catalog"
)
SELECT_PROPERTIES = text(
    "SELECT property_key, property_value FROM iceberg_namespace_properties"
    " WHERE catalog_name = :catalog AND namespace = :namespace"
)
SELECT_CATALOGS = text(
    "SELECT catalog_name FROM iceberg_tables"
    " UNION SELECT catalog_name FROM iceberg_namespace_properties"
)
INSERT_PROPERTY = text(
    "INSERT INTO iceberg_namespace_properties"
    " (catalog_name, namespace, property_key, property_value)"
    " VALUES (:catalog, :namespace, :key, :value)"
)
INSERT_TABLE_V0 = text(
    "INSERT INTO iceberg_tables"
    " (catalog_name, table_namespace, table_name, metadata_location, previous_metadata_location)"
    " VALUES (:catalog, :namespace, :name, :location, NULL)"
)
INSERT_TABLE_V1 = text(
    "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location,"
    " previous_metadata_location, iceberg_type)"
    " VALUES (:catalog, :namespace, :name, :location, NULL, :kind)"
)
UPDATE_TABLE = text(
    "UPDATE iceberg_tables SET metadata_location = :new, previous_metadata_location = :old"
    " WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :name"
    " AND metadata_location = :old"
)
CREATE = (  # as pyiceberg creates them
    text(
        "CREATE TABLE IF NOT EXISTS iceberg_tables ("
        "catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL,"
        " table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000),"
        " previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),"
        " PRIMARY KEY (catalog_name, table_namespace, table_name))"
    ),
    text(
        "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties ("
        "catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL,"
        " property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000) NOT NULL,"
        " PRIMARY KEY (catalog_name, namespace, property_key))"
    ),
)
