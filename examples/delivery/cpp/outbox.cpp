/* An outbox and an inbox in SQLite: each order is billed once, whichever process is killed.
 *
 *   outbox FILE create          the tables
 *   outbox FILE shop COUNT      orders, each in one transaction with its message
 *   outbox FILE relay           sends the messages, until it is killed
 *   outbox FILE billing COUNT   bills, each in one transaction with the record of its message */
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <poll.h>
#include <sqlite3.h>

#include <pinnace/client.hpp>

namespace {

constexpr int batch = 100; /* the most rows that the relay sends at once */
constexpr int idle_ms = 10;

class Statement {
  public:
    Statement(sqlite3 *database, const char *sql) : database_(database) {
        check(sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr));
    }
    Statement(const Statement &) = delete;
    Statement &operator=(const Statement &) = delete;
    ~Statement() { sqlite3_finalize(statement_); }

    Statement &bind(std::int64_t number) {
        check(sqlite3_bind_int64(statement_, ++bound_, number));
        return *this;
    }
    Statement &bind(const std::string &text) {
        check(sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT));
        return *this;
    }
    Statement &bind_bytes(const std::string &bytes) {
        check(sqlite3_bind_blob(statement_, ++bound_, bytes.data(), static_cast<int>(bytes.size()), SQLITE_TRANSIENT));
        return *this;
    }
    /* True: there is a row. */
    bool step() {
        const int result = sqlite3_step(statement_);
        if (result != SQLITE_ROW && result != SQLITE_DONE)
            check(result);
        return result == SQLITE_ROW;
    }
    std::int64_t number(int column) { return sqlite3_column_int64(statement_, column); }
    bool is_null(int column) { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
    /* Empty: it is NULL. */
    std::string bytes(int column) {
        const void *data = sqlite3_column_blob(statement_, column);
        return {static_cast<const char *>(data), static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
    }

  private:
    void check(int result) {
        if (result != SQLITE_OK)
            throw std::runtime_error(sqlite3_errmsg(database_));
    }

    sqlite3 *database_;
    sqlite3_stmt *statement_ = nullptr;
    int bound_ = 0;
};

class Database {
  public:
    explicit Database(const char *file) {
        if (sqlite3_open(file, &database_) != SQLITE_OK)
            throw std::runtime_error(sqlite3_errmsg(database_));
        sqlite3_busy_timeout(database_, 60000);
        /* A commit is on the disk, and readers do not wait for writers. */
        execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
    }
    Database(const Database &) = delete;
    Database &operator=(const Database &) = delete;
    ~Database() { sqlite3_close(database_); }

    void execute(const char *statements) {
        if (sqlite3_exec(database_, statements, nullptr, nullptr, nullptr) != SQLITE_OK)
            throw std::runtime_error(sqlite3_errmsg(database_));
    }
    Statement statement(const char *sql) { return {database_, sql}; }
    std::int64_t last_id() { return sqlite3_last_insert_rowid(database_); }
    int changes() { return sqlite3_changes(database_); }

  private:
    sqlite3 *database_ = nullptr;
};

/* Rolls back at its end, unless it was committed. */
class Transaction {
  public:
    explicit Transaction(Database &database) : database_(&database) { database.execute("BEGIN IMMEDIATE"); }
    Transaction(const Transaction &) = delete;
    Transaction &operator=(const Transaction &) = delete;
    ~Transaction() {
        if (database_ != nullptr)
            try {
                database_->execute("ROLLBACK");
            } catch (const std::runtime_error &) {
                /* SQLite has rolled back already. */
            }
    }
    void commit() {
        database_->execute("COMMIT");
        database_ = nullptr;
    }

  private:
    Database *database_;
};

void create(Database &database) {
    database.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY)");
    database.execute("CREATE TABLE bills (place INTEGER PRIMARY KEY, number INTEGER)");
    database.execute(pinnace_sql(PINNACE_SQL_OUTBOX_SCHEMA_SQLITE));
    database.execute(pinnace_cursor_schema());
}

void shop(Database &database, std::int64_t count) {
    Statement last = database.statement("SELECT COALESCE(MAX(number), 0) FROM orders");
    last.step();
    const std::int64_t first = last.number(0) + 1;
    last.step();
    for (std::int64_t number = first; number <= count; number++) {
        /* The order and its message are committed together, or neither is. */
        Transaction transaction(database);
        database.statement("INSERT INTO orders VALUES (?)").bind(number).step();
        database.statement("INSERT INTO pinnace_outbox (topic, body) VALUES ('invoices', ?)")
            .bind_bytes(std::to_string(number)).step();
        const std::int64_t row = database.last_id();
        database.statement("INSERT INTO pinnace_outbox_headers (row_id, name, value) VALUES (?, 'currency', ?)")
            .bind(row).bind_bytes("EUR").step();
        transaction.commit();
        std::cout << number << std::endl;
    }
}

struct Row {
    std::int64_t id;
    std::string topic, body;
    pinnace::SendOptions options;
    std::string refused; /* why it cannot be sent as it is */
};

std::string owner(Database &database) {
    Statement found = database.statement(pinnace_sql(PINNACE_SQL_OUTBOX_OWNER));
    return found.step() ? found.bytes(0) : "";
}

/* The next rows in their order, if this client's store is the outbox's own. */
std::vector<Row> next(Database &database, const pinnace::Client &client) {
    if (owner(database).empty())
        database.statement(pinnace_sql(PINNACE_SQL_OUTBOX_CLAIM)).bind(client.store_id()).step();
    if (owner(database) != client.store_id())
        throw std::runtime_error("the outbox belongs to another store");
    std::vector<Row> rows;
    Statement found = database.statement(pinnace_sql(PINNACE_SQL_OUTBOX_NEXT));
    for (found.bind(batch); found.step();) {
        pinnace::SendOptions options;
        options.id = found.bytes(1);
        options.all = found.number(4) != 0;
        options.ttl = pinnace::Millis(found.number(5));
        options.content_type = found.bytes(6);
        options.traceparent = found.bytes(7);
        options.tracestate = found.bytes(8);
        if (!found.is_null(9))
            options.ordering_key = found.bytes(9);
        rows.push_back({found.number(0), found.bytes(2), found.bytes(3), std::move(options), ""});
    }
    if (rows.empty())
        return rows;
    Statement header = database.statement(pinnace_sql(PINNACE_SQL_OUTBOX_HEADERS));
    auto row = rows.begin();
    for (header.bind(rows.front().id).bind(rows.back().id); header.step();) {
        while (row != rows.end() && row->id < header.number(0))
            row++;
        if (row != rows.end() && row->id == header.number(0))
            row->options.headers.emplace_back(header.bytes(1), header.bytes(2));
    }
    return rows;
}

/* Sends the next rows, and deletes them when they are on the disk. Returns their number. */
std::size_t relay_some(Database &database, pinnace::Client &client) {
    std::vector<Row> rows = next(database, client);
    if (rows.empty())
        return 0;
    pinnace::Ticket last{};
    for (Row &row : rows)
        try {
            const pinnace::Ticket ticket = client.send_async(row.topic, row.body, row.options);
            last = ticket.number > last.number ? ticket : last;
        } catch (const pinnace::Error &error) {
            if (error.code().value() != EINVAL && error.code().value() != EMSGSIZE)
                throw;
            row.refused = error.what();
            std::cerr << "row " << row.id << " of the outbox cannot be sent: " << row.refused << std::endl;
        }
    /* Messages reach the disk in the order of their tickets. */
    client.wait(last);
    Transaction transaction(database);
    for (const Row &row : rows)
        if (row.refused.empty())
            database.statement(pinnace_sql(PINNACE_SQL_OUTBOX_DELETE)).bind(row.id).step();
        else
            database.statement(pinnace_sql(PINNACE_SQL_OUTBOX_REFUSE)).bind(row.refused).bind(row.id).step();
    transaction.commit();
    return rows.size();
}

[[noreturn]] void relay(Database &database) {
    /* Ids that count for ever: a relay that was killed after it has sent a row does not send it twice. */
    pinnace::Client client(pinnace::Options("shop", "orders").deduplicate_for(pinnace::forever));
    for (;;)
        if (relay_some(database, client) == 0)
            poll(nullptr, 0, idle_ms);
}

void billing(Database &database, std::int64_t count) {
    pinnace::Client client(pinnace::Options("billing", "invoices"));
    for (std::int64_t billed = 0; billed < count;) {
        pinnace::Delivery order = client.recv();
        billed = std::stoll(std::string(order.body()));
        const pinnace::Cursor cursor = order.cursor();
        const auto [stream, number] = std::pair(std::int64_t(cursor.stream), std::int64_t(cursor.number));
        /* The bill and the record that its message was handled are committed together, or neither is. */
        Transaction transaction(database);
        database.statement(pinnace_sql(PINNACE_SQL_CURSOR_INSERT))
            .bind(client.name()).bind(cursor.sender).bind(stream).bind(number).step();
        if (database.changes() == 1) {
            database.statement(pinnace_sql(PINNACE_SQL_CURSOR_FORGET))
                .bind(client.name()).bind(cursor.sender).bind(stream).bind(std::int64_t(cursor.settled)).step();
            database.statement("INSERT INTO bills (number) VALUES (?)").bind(billed).step();
        }
        transaction.commit();
        order.ack();
        std::cout << billed << std::endl;
    }
    client.close(std::chrono::seconds(10));
}

} // namespace

int main(int argc, char **argv) {
    const std::string role = argc > 2 ? argv[2] : "";
    const std::int64_t count = argc > 3 ? std::atoll(argv[3]) : 0;
    try {
        Database database(argc > 1 ? argv[1] : "");
        if (role == "create")
            create(database);
        else if (role == "shop")
            shop(database, count);
        else if (role == "relay")
            relay(database);
        else if (role == "billing")
            billing(database, count);
        else
            throw std::runtime_error("usage: outbox FILE create|shop|relay|billing [COUNT]");
    } catch (const std::exception &problem) {
        std::cerr << problem.what() << std::endl;
        return 1;
    }
}
