// Measures dedup_new_keys() of 100 keys a transaction beside BF.MADD of RedisBloom and beside
// unnest(), which returns the same rows and knows no filter. new_keys.sh says how it is run.
//
// usage: new_keys KEYS ROUNDS PRESENT [SOCKET PID]
//
// PostgreSQL is reached by libpq and its variables, with binary arrays; Redis, if given, by its
// protocol over a Unix socket. Clients make their messages before the clock starts. Everything
// takes turns: in each round each side adds KEYS keys that it has not seen, and then the same keys
// again, by one connection and by four. Before, each gets PRESENT keys.

#include <map>
#include <tuple>

#include "two_servers.hpp"

namespace {

constexpr int kBatch = 100;
constexpr int kMostConnections = 4;

// ---- PostgreSQL ----------------------------------------------------------------------------

class Postgres : public PostgresConnection {
 public:
  Postgres() {
    Prepare("unnest", "SELECT unnest($1::bigint[])");
    Prepare("live", "SELECT dedup_new_keys('live', $1::bigint[])");
    Prepare("unlogged", "SELECT dedup_new_keys('unlogged', $1::bigint[])");
  }

  // The array of the keys from one on, in binary.
  static std::string Message(const std::string&, uint64_t first, int) {
    std::string array;
    const auto append = [&array](uint64_t value, int bytes) {
      for (int i = bytes - 1; i >= 0; --i) array.push_back(static_cast<char>(value >> 8 * i));
    };
    for (const uint64_t word : {1, 0, 20, kBatch, 1}) append(word, 4);
    for (int i = 0; i < kBatch; ++i) {
      append(8, 4);
      append(static_cast<uint64_t>(KeyOf(first + static_cast<uint64_t>(i))), 8);
    }
    return array;
  }

  // Returns how many keys were new.
  int Send(const std::string& statement, const std::string& message, int) {
    const char* values[] = {message.data()};
    const int lengths[] = {static_cast<int>(message.size())};
    const int formats[] = {1};
    return Check(PQexecPrepared(connection_, statement.c_str(), 1, values, lengths, formats, 1));
  }
};

// ---- Redis -----------------------------------------------------------------------------------

class Redis : public RedisConnection {
 public:
  using RedisConnection::RedisConnection;

  static std::string Message(const std::string& filter, uint64_t first, int) {
    std::vector<std::string> words = {"BF.MADD", filter};
    for (int i = 0; i < kBatch; ++i) {
      words.push_back(std::to_string(KeyOf(first + static_cast<uint64_t>(i))));
    }
    return Command(words);
  }

  // Returns how many keys were new. The reply is "*100" and a number for each key.
  int Send(const std::string&, const std::string& message, int) {
    const std::string_view reply = Ask(message, 6 + kBatch * 4);
    int fresh = 0;
    for (size_t at = 7; at < reply.size(); at += 4) fresh += reply[at] == '1';
    return fresh;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 6) {
    std::fprintf(stderr, "usage: new_keys KEYS ROUNDS PRESENT [SOCKET PID]\n");
    return 2;
  }
  const bool has_redis = argc == 6;
  const int batches = std::atoi(argv[1]) / kBatch, rounds = std::atoi(argv[2]);
  std::vector<Postgres*> backends;
  std::vector<Redis*> clients;
  std::vector<int> backend_pids, redis_pids;
  for (int i = 0; i < kMostConnections; ++i) {
    backends.push_back(new Postgres);
    backend_pids.push_back(backends.back()->pid());
    if (has_redis) clients.push_back(new Redis(argv[4]));
  }
  std::vector<std::string> filters = {"unnest", "live", "unlogged"};
  if (has_redis) {
    redis_pids.push_back(std::atoi(argv[5]));
    filters.insert(filters.begin() + 1, {"reserved", "growing"});
    clients[0]->Ask(Redis::Command({"BF.RESERVE", "reserved", "0.01", "10000000"}), 5);
  }

  uint64_t first = 0;
  const auto run = [&](const std::string& filter, size_t connections, int n, Result* result) {
    const auto some = [connections](const auto& all) {
      return std::vector(all.begin(), all.begin() + static_cast<long>(connections));
    };
    if (filter == "reserved" || filter == "growing") {
      Measure<Redis>(some(clients), filter, first, n, kBatch, redis_pids, result);
    } else {
      Measure<Postgres>(some(backends), filter, first, n, kBatch, some(backend_pids), result);
    }
  };
  for (int left = std::atoi(argv[3]) / kBatch; left > 0; left -= batches) {
    const int n = std::min(left, batches);
    for (const std::string& filter : filters) {
      Result ignored;
      if (filter != "unnest") run(filter, kMostConnections, n, &ignored);
    }
    first += static_cast<uint64_t>(n) * kBatch;
  }

  // By connections, filter, and whether the keys are known.
  std::map<std::tuple<size_t, std::string, bool>, Result> results;
  const std::vector<size_t> numbers = {1, kMostConnections};
  for (int round = 0; round < rounds; ++round) {
    for (const size_t connections : numbers) {
      for (const bool known : {false, true}) {
        for (const std::string& filter : filters) {
          run(filter, connections, batches, &results[{connections, filter, known}]);
        }
        std::reverse(filters.begin(), filters.end());
      }
      first += static_cast<uint64_t>(batches) * kBatch;
    }
  }

  const std::map<std::string, std::string> names = {
      {"unnest", "unnest()"},
      {"reserved", "BF.MADD, BF.RESERVE for 10 million"},
      {"growing", "BF.MADD"},
      {"live", "dedup_new_keys()"},
      {"unlogged", "dedup_new_keys(), unlogged"}};
  std::printf("%11s %-6s %-34s %23s %23s\n", "", "", "", "thousand keys a second",
              "server CPU, us a key");
  std::printf("%11s %-6s %-34s %11s %11s %11s %11s\n", "connections", "keys", "", "best", "median",
              "least", "median");
  for (const size_t connections : numbers) {
    for (const bool known : {false, true}) {
      for (const char* filter : {"unnest", "growing", "reserved", "live", "unlogged"}) {
        if (std::find(filters.begin(), filters.end(), filter) == filters.end()) continue;
        const Result& result = results[{connections, filter, known}];
        std::printf("%11zu %-6s %-34s %11.0f %11.0f %11.3f %11.3f\n", connections,
                    known ? "known" : "new", names.at(filter).c_str(), Best(result.rates),
                    Median(result.rates), Least(result.cpu), Median(result.cpu));
      }
    }
  }
  if (has_redis) {
    std::printf("\nthe rate of dedup_new_keys(), times that of\n%11s %-6s %23s %23s\n", "", "",
                "BF.MADD", "the same, reserved");
    std::printf("%11s %-6s %11s %11s %11s %11s\n", "connections", "keys", "best", "median", "best",
                "median");
  }
  for (const size_t connections : numbers) {
    for (const bool known : {false, true}) {
      if (!has_redis) continue;
      const std::vector<double>& live = results[{connections, "live", known}].rates;
      std::printf("%11zu %-6s", connections, known ? "known" : "new");
      for (const char* other : {"growing", "reserved"}) {
        const std::vector<double>& rates = results[{connections, other, known}].rates;
        std::printf(" %11.2f %11.2f", Best(live) / Best(rates), Median(live) / Median(rates));
      }
      std::printf("\n");
    }
  }
  for (Postgres* backend : backends) delete backend;
  for (Redis* client : clients) delete client;
  return 0;
}
