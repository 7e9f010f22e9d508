// Measures distinct keys in PostgreSQL with this extension beside DuckDB. duckdb.sh says how it is
// run.
//
// usage: duckdb NAME COLUMN FILE ROUNDS
//
// PostgreSQL is reached by libpq and its variables, and has the rows in the table t. DuckDB runs in
// this process, in memory and with one thread, and reads the same rows from the CSV file into a
// table first. Each query runs in both before the next one, and every other round goes backwards.

#include <libpq-fe.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

// What is used of DuckDB's C API. Its package for Node.js has the library without the header.
extern "C" {
struct DuckResult {
  uint64_t columns, rows, changed;
  void* values;
  char* error;
  void* internal;
};
const char* duckdb_library_version();
int duckdb_open(const char* path, void** database);
int duckdb_connect(void* database, void** connection);
int duckdb_query(void* connection, const char* query, DuckResult* result);
const char* duckdb_result_error(DuckResult* result);
int64_t duckdb_value_int64(DuckResult* result, uint64_t column, uint64_t row);
void duckdb_destroy_result(DuckResult* result);
}

namespace {

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "duckdb: %s\n", what.c_str());
  std::exit(1);
}

class Postgres {
 public:
  Postgres() : connection_(PQconnectdb("")) {
    if (PQstatus(connection_) != CONNECTION_OK) Die(PQerrorMessage(connection_));
  }
  // Runs the query and returns its first value, or 0.
  int64_t Query(const std::string& query) {
    PGresult* result = PQexec(connection_, query.c_str());
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) Die(PQerrorMessage(connection_));
    const int64_t value = PQntuples(result) > 0 ? std::atoll(PQgetvalue(result, 0, 0)) : 0;
    PQclear(result);
    return value;
  }
  // Seconds of CPU that the backend has used.
  double Cpu() const {
    std::ifstream file("/proc/" + std::to_string(PQbackendPID(connection_)) + "/schedstat");
    double nanoseconds = 0;
    file >> nanoseconds;
    return nanoseconds / 1e9;
  }

 private:
  PGconn* connection_;
};

class Duck {
 public:
  Duck() {
    void* database = nullptr;
    if (duckdb_open(nullptr, &database) != 0 || duckdb_connect(database, &connection_) != 0) {
      Die("cannot open a database in memory");
    }
  }
  int64_t Query(const std::string& query) {
    DuckResult result;
    if (duckdb_query(connection_, query.c_str(), &result) != 0) Die(duckdb_result_error(&result));
    const int64_t value = duckdb_value_int64(&result, 0, 0);
    duckdb_destroy_result(&result);
    return value;
  }
  // Seconds of CPU of this process, in which PostgreSQL's client only waits.
  double Cpu() const {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }

 private:
  void* connection_ = nullptr;
};

struct Times {
  std::vector<double> wall, cpu;
  int64_t answer = 0;
};

template <typename Server>
void Run(Server* server, const std::string& query, Times* times) {
  const double cpu = server->Cpu();
  const auto began = std::chrono::steady_clock::now();
  times->answer = server->Query(query);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  times->wall.push_back(took.count());
  times->cpu.push_back(server->Cpu() - cpu);
}

double Best(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

struct Comparison {
  std::string what, query;
  Times postgres, duck;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: duckdb NAME COLUMN FILE ROUNDS\n");
    return 2;
  }
  const std::string column = argv[2];
  const int rounds = std::atoi(argv[4]);

  Duck duck;
  duck.Query("SET threads = 1");
  duck.Query("CREATE TABLE t AS SELECT * FROM read_csv('" + std::string(argv[3]) +
             "', header = false, columns = {'k': '" + column + "', 'few': '" + column + "'})");
  Postgres postgres;
  for (const char* setting : {"max_parallel_workers_per_gather = 0", "jit = off",
                              "streamdedup.approximate_distinct = on"}) {
    postgres.Query(std::string("SET ") + setting);
  }

  std::vector<Comparison> all = {
      {"SELECT DISTINCT k", "SELECT count(*) FROM (SELECT DISTINCT k FROM t) s", {}, {}},
      {"SELECT DISTINCT few", "SELECT count(*) FROM (SELECT DISTINCT few FROM t) s", {}, {}},
      {"approx_count_distinct(k)", "SELECT approx_count_distinct(k) FROM t", {}, {}},
      {"count(k): only reading", "SELECT count(k) FROM t", {}, {}}};
  const int64_t rows = postgres.Query("SELECT count(*) FROM t");
  if (duck.Query("SELECT count(*) FROM t") != rows) Die("the tables differ");
  for (int round = 0; round < rounds; ++round) {
    for (Comparison& one : all) {
      if (round % 2 == 0) Run(&postgres, one.query, &one.postgres);
      Run(&duck, one.query, &one.duck);
      if (round % 2 == 1) Run(&postgres, one.query, &one.postgres);
    }
    std::reverse(all.begin(), all.end());
  }
  if (rounds % 2 == 1) std::reverse(all.begin(), all.end());

  std::printf("\n== %s, %lld rows\nDuckDB %s\n", argv[1], static_cast<long long>(rows),
              duckdb_library_version());
  std::printf("%-25s | min s | median s | DuckDB min s | DuckDB median s | times DuckDB | median |",
              "what");
  std::printf(" CPU s | DuckDB CPU s | CPU times DuckDB |   answer | DuckDB answer\n");
  std::printf("%s\n", (std::string(26, '-') + "+" + std::string(140, '-')).c_str());
  for (const Comparison& one : all) {
    const Times& p = one.postgres;
    const Times& d = one.duck;
    std::printf("%-25s | %5.3f | %8.3f | %12.3f | %15.3f | %12.2f | %6.2f |", one.what.c_str(),
                Best(p.wall), Median(p.wall), Best(d.wall), Median(d.wall),
                Best(p.wall) / Best(d.wall), Median(p.wall) / Median(d.wall));
    std::printf(" %5.3f | %12.3f | %16.2f | %8lld | %13lld\n", Best(p.cpu), Best(d.cpu),
                Best(p.cpu) / Best(d.cpu), static_cast<long long>(p.answer),
                static_cast<long long>(d.answer));
  }
  return 0;
}
