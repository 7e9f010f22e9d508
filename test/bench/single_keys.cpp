// Measures is_new() of one key beside BF.ADD of RedisBloom. single_keys.sh says how it is run.
//
// usage: single_keys KEYS ROUNDS SOCKET PID
//
// PostgreSQL is reached by libpq and its variables, with prepared statements and binary keys, and
// by pgbench; Redis by its protocol over a Unix socket. In each round each side adds KEYS new keys
// and then the same keys again, by one connection and by four, one key at a time and 16 in a
// pipeline. A pipeline of PostgreSQL is one transaction. All filters begin empty, grow, and get
// the same keys; those of pgbench get as many.

#include <cinttypes>
#include <map>
#include <tuple>

#include "two_servers.hpp"

namespace {

constexpr int kMostConnections = 4;
constexpr int kPipeline = 16;

class Postgres : public PostgresConnection {
 public:
  Postgres() {
    for (const char* filter : {"live_1", "live_16", "unlogged_1", "unlogged_16"}) {
      const std::string sql = std::string("SELECT is_new('") + filter + "'::regclass, $1::bigint)";
      Prepare(filter, sql.c_str());
    }
  }

  static std::string Message(const std::string&, uint64_t first, int each) {
    std::string keys;
    for (int i = 0; i < each; ++i) {
      const uint64_t key = static_cast<uint64_t>(KeyOf(first + static_cast<uint64_t>(i)));
      for (int byte = 7; byte >= 0; --byte) keys.push_back(static_cast<char>(key >> 8 * byte));
    }
    return keys;
  }

  // Returns how many keys were new.
  int Send(const std::string& statement, const std::string& message, int each) {
    const int length = 8, binary = 1;
    if (each == 1) {
      const char* key = message.data();
      return Fresh(PQexecPrepared(connection_, statement.c_str(), 1, &key, &length, &binary, 1));
    }
    int fresh = 0;
    if (PQpipelineStatus(connection_) == PQ_PIPELINE_OFF) PQenterPipelineMode(connection_);
    for (int i = 0; i < each; ++i) {
      const char* key = message.data() + 8 * i;
      if (PQsendQueryPrepared(connection_, statement.c_str(), 1, &key, &length, &binary, 1) != 1) {
        Die(PQerrorMessage(connection_));
      }
    }
    if (PQpipelineSync(connection_) != 1) Die(PQerrorMessage(connection_));
    for (int i = 0; i < each; ++i) {
      fresh += Fresh(PQgetResult(connection_));
      if (PQgetResult(connection_) != nullptr) Die("a statement has two results");
    }
    PGresult* end = PQgetResult(connection_);
    if (PQresultStatus(end) != PGRES_PIPELINE_SYNC) Die(PQerrorMessage(connection_));
    PQclear(end);
    if (PQexitPipelineMode(connection_) != 1) Die(PQerrorMessage(connection_));
    return fresh;
  }

 private:
  // Frees the result of a statement and returns 1 if its key was new, else 0.
  int Fresh(PGresult* result) {
    if (PQresultStatus(result) != PGRES_TUPLES_OK) Die(PQerrorMessage(connection_));
    const int fresh = *PQgetvalue(result, 0, 0) != 0;
    PQclear(result);
    return fresh;
  }
};

class Redis : public RedisConnection {
 public:
  using RedisConnection::RedisConnection;

  static std::string Message(const std::string& filter, uint64_t first, int each) {
    std::string commands;
    for (int i = 0; i < each; ++i) {
      commands +=
          Command({"BF.ADD", filter, std::to_string(KeyOf(first + static_cast<uint64_t>(i)))});
    }
    return commands;
  }

  // Returns how many keys were new. Each reply is ":0" or ":1" and the end of its line.
  int Send(const std::string&, const std::string& message, int each) {
    const std::string_view reply = Ask(message, static_cast<size_t>(each) * 4);
    int fresh = 0;
    for (size_t at = 1; at < reply.size(); at += 4) fresh += reply[at] == '1';
    return fresh;
  }

  double SizeOf(const std::string& filter) {
    const std::string info(Ask(Command({"BF.INFO", filter}), 80));
    const size_t at = info.find("Size\r\n:");
    if (at == std::string::npos) Die("BF.INFO shows no size");
    return std::atof(info.c_str() + at + 7);
  }
};

// Runs pgbench with prepared statements, with `keys` keys from number `first` on.
void RunPgbench(uint64_t first, int keys, int each, size_t connections, Result* result) {
  char command[512], line[512];
  double rate = 0;

  std::snprintf(command, sizeof command,
                "pgbench -n -M prepared -c %zu -j %zu -t %d -D first=%" PRIu64
                " -D n=0 -D step=%zu -f single_keys_%d.pgbench 2>&1",
                connections, connections, keys / each / static_cast<int>(connections), first,
                connections, each);
  FILE* output = popen(command, "r");
  if (output == nullptr) Die("cannot start pgbench");
  std::string all;
  while (std::fgets(line, sizeof line, output) != nullptr) {
    all += line;
    std::sscanf(line, "tps = %lf", &rate);
  }
  if (pclose(output) != 0 || rate == 0) Die("pgbench: " + all);
  result->rates.push_back(rate * each / 1000);
}

struct Side {
  const char* name;
  const char* filter;  // of Redis or PostgreSQL; the number of keys in a message is appended
  enum { kRedis, kLibpq, kPgbench } how;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: single_keys KEYS ROUNDS SOCKET PID\n");
    return 2;
  }
  const int keys =
      std::atoi(argv[1]) / (kPipeline * kMostConnections) * kPipeline * kMostConnections;
  const int rounds = std::atoi(argv[2]);
  std::vector<Postgres*> backends;
  std::vector<Redis*> clients;
  std::vector<int> backend_pids;
  const std::vector<int> redis_pids = {std::atoi(argv[4])};
  for (int i = 0; i < kMostConnections; ++i) {
    backends.push_back(new Postgres);
    backend_pids.push_back(backends.back()->pid());
    clients.push_back(new Redis(argv[3]));
  }
  std::vector<Side> sides = {{"BF.ADD", "bf", Side::kRedis},
                             {"is_new()", "live", Side::kLibpq},
                             {"is_new(), unlogged", "unlogged", Side::kLibpq},
                             {"is_new(), pgbench", "bench", Side::kPgbench}};
  const std::vector<Side> in_order = sides;

  // By connections, keys in a message, whether the keys are known, and side.
  std::map<std::tuple<size_t, int, bool, std::string>, Result> results;
  const auto some = [](const auto& all, size_t n) {
    return std::vector(all.begin(), all.begin() + static_cast<long>(n));
  };
  uint64_t first = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const size_t n : {size_t{1}, size_t{kMostConnections}}) {
      for (const bool known : {false, true}) {
        for (const int each : {1, kPipeline}) {
          for (const Side& side : sides) {
            const std::string filter = std::string(side.filter) + "_" + std::to_string(each);
            Result* result = &results[{n, each, known, side.name}];
            if (side.how == Side::kRedis) {
              Measure<Redis>(some(clients, n), filter, first, keys / each, each, redis_pids,
                             result);
            } else if (side.how == Side::kLibpq) {
              Measure<Postgres>(some(backends, n), filter, first, keys / each, each,
                                some(backend_pids, n), result);
            } else {
              RunPgbench(first, keys, each, n, result);
            }
          }
        }
        std::reverse(sides.begin(), sides.end());
      }
      first += static_cast<uint64_t>(keys);
    }
  }

  std::printf(
      "connections | pipelined by | keys | | thousand keys a second, best | median | "
      "times BF.ADD, best | median | CPU us a key, best | median\n");
  std::printf(
      "------------+--------------+------+-+------------------------------+--------+-"
      "-------------------+--------+---------------------+-------\n");
  for (const size_t n : {size_t{1}, size_t{kMostConnections}}) {
    for (const int each : {1, kPipeline}) {
      for (const bool known : {false, true}) {
        const Result& redis = results[{n, each, known, "BF.ADD"}];
        for (const Side& side : in_order) {
          const Result& mine = results[{n, each, known, side.name}];
          std::printf("%zu | %d | %s | %s | %.1f | %.1f | %.2f | %.2f |", n, each,
                      known ? "known" : "new", side.name, Best(mine.rates), Median(mine.rates),
                      Best(mine.rates) / Best(redis.rates),
                      Median(mine.rates) / Median(redis.rates));
          if (mine.cpu.empty()) {
            std::printf(" |\n");
          } else {
            std::printf(" %.2f | %.2f\n", Least(mine.cpu), Median(mine.cpu));
          }
        }
      }
    }
  }

  const double added = static_cast<double>(first);
  backends[0]->Run("VACUUM live_1, unlogged_1");
  std::printf("\nafter VACUUM, %.0f keys\n\nfilter | bytes a key\n-------+------------\n", added);
  std::printf("RedisBloom, rate 0.01 | %.2f\n", clients[0]->SizeOf("bf_1") / added);
  std::printf("live filter, rate 0.0001 | %.2f\n",
              backends[0]->Number("SELECT pg_relation_size('live_1')") / added);
  for (Postgres* backend : backends) delete backend;
  for (Redis* client : clients) delete client;
  return 0;
}
