// Measures dedup_new_keys() of 100 keys a transaction beside BF.MADD of RedisBloom and beside
// unnest(), which returns the same rows and knows no filter. new_keys.sh says how it is run.
//
// usage: new_keys KEYS ROUNDS PRESENT [SOCKET PID]
//
// PostgreSQL is reached by libpq and its variables, with binary arrays; Redis, if given, by its
// protocol over a Unix socket. Clients make their messages before the clock starts. Everything
// takes turns: in each round each side adds KEYS keys that it has not seen, and then the same keys
// again, by one connection and by four. Before, each gets PRESENT keys.

#include <libpq-fe.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

namespace {

constexpr int kBatch = 100;
constexpr int kMostConnections = 4;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "new_keys: %s\n", what.c_str());
  std::exit(1);
}

uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Key number i: all are different.
int64_t KeyOf(uint64_t i) { return static_cast<int64_t>(Mix(i + 1)); }

// Seconds of CPU that a process has used.
double CpuOf(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/schedstat");
  double nanoseconds = 0;
  file >> nanoseconds;
  return nanoseconds / 1e9;
}

// ---- PostgreSQL ----------------------------------------------------------------------------

class Postgres {
 public:
  Postgres() : connection_(PQconnectdb("")) {
    if (PQstatus(connection_) != CONNECTION_OK) Die(PQerrorMessage(connection_));
    Run("SET client_min_messages = error");
    Prepare("unnest", "SELECT unnest($1::bigint[])");
    Prepare("live", "SELECT dedup_new_keys('live', $1::bigint[])");
    Prepare("unlogged", "SELECT dedup_new_keys('unlogged', $1::bigint[])");
  }
  ~Postgres() { PQfinish(connection_); }
  Postgres(const Postgres&) = delete;

  void Run(const char* sql) { Check(PQexec(connection_, sql)); }
  int pid() const { return PQbackendPID(connection_); }

  // The array of the keys from one on, in binary.
  static std::string Message(const std::string&, uint64_t first) {
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
  int Batch(const std::string& statement, const std::string& message) {
    const char* values[] = {message.data()};
    const int lengths[] = {static_cast<int>(message.size())};
    const int formats[] = {1};
    return Check(PQexecPrepared(connection_, statement.c_str(), 1, values, lengths, formats, 1));
  }

 private:
  int Check(PGresult* result) {
    const auto status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) Die(PQerrorMessage(connection_));
    const int rows = PQntuples(result);
    PQclear(result);
    return rows;
  }
  void Prepare(const char* name, const char* sql) {
    Check(PQprepare(connection_, name, sql, 0, nullptr));
  }

  PGconn* connection_;
};

// ---- Redis -----------------------------------------------------------------------------------

class Redis {
 public:
  explicit Redis(const char* path) : socket_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) Die(path);
  }
  ~Redis() { close(socket_); }
  Redis(const Redis&) = delete;

  static std::string Command(const std::vector<std::string>& words) {
    std::string message = "*" + std::to_string(words.size()) + "\r\n";
    for (const std::string& word : words) {
      message += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
    }
    return message;
  }
  static std::string Message(const std::string& filter, uint64_t first) {
    std::vector<std::string> words = {"BF.MADD", filter};
    for (int i = 0; i < kBatch; ++i) {
      words.push_back(std::to_string(KeyOf(first + static_cast<uint64_t>(i))));
    }
    return Command(words);
  }

  // Sends a command and returns the reply, which has `size` bytes unless it is an error.
  std::string_view Ask(const std::string& message, size_t size) {
    for (size_t sent = 0; sent < message.size();) {
      const ssize_t n = write(socket_, message.data() + sent, message.size() - sent);
      if (n <= 0) Die("cannot write to Redis");
      sent += static_cast<size_t>(n);
    }
    size_t got = 0;
    while (got < size) {
      const ssize_t n = read(socket_, reply_.data() + got, reply_.size() - got);
      if (n <= 0) Die("cannot read from Redis");
      got += static_cast<size_t>(n);
      if (reply_[0] == '-') Die(std::string(reply_.data(), got));
    }
    return {reply_.data(), got};
  }

  // Returns how many keys were new. The reply is "*100" and a number for each key.
  int Batch(const std::string&, const std::string& message) {
    const std::string_view reply = Ask(message, 6 + kBatch * 4);
    int fresh = 0;
    for (size_t at = 7; at < reply.size(); at += 4) fresh += reply[at] == '1';
    return fresh;
  }

 private:
  int socket_;
  std::array<char, 4096> reply_;
};

// ---- what takes turns ------------------------------------------------------------------------

// What was measured, one entry a round.
struct Result {
  std::vector<double> rates;  // thousand keys a second
  std::vector<double> cpu;    // microseconds of the server's CPU a key
};

double Best(const std::vector<double>& rates) {
  return *std::max_element(rates.begin(), rates.end());
}
double Least(const std::vector<double>& cpu) { return *std::min_element(cpu.begin(), cpu.end()); }
double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Runs the batches of all connections side by side.
template <typename Server>
void Run(std::vector<Server*> servers, const std::string& filter, uint64_t first, int batches,
         const std::vector<int>& pids, Result* result) {
  std::vector<std::vector<std::string>> messages(servers.size());
  std::vector<std::thread> threads;
  double before = 0, after = 0;

  for (int i = 0; i < batches; ++i) {
    messages[static_cast<size_t>(i) % servers.size()].push_back(
        Server::Message(filter, first + static_cast<uint64_t>(i) * kBatch));
  }
  for (const int pid : pids) before += CpuOf(pid);
  const auto began = std::chrono::steady_clock::now();
  for (size_t i = 0; i < servers.size(); ++i) {
    threads.emplace_back([&, i] {
      for (const std::string& message : messages[i]) servers[i]->Batch(filter, message);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  for (const int pid : pids) after += CpuOf(pid);
  result->rates.push_back(batches * kBatch / took.count() / 1000);
  result->cpu.push_back((after - before) / (batches * kBatch) * 1e6);
}

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
      Run<Redis>(some(clients), filter, first, n, redis_pids, result);
    } else {
      Run<Postgres>(some(backends), filter, first, n, some(backend_pids), result);
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
