// Clients of PostgreSQL and of Redis for the benchmarks that run both, and what they measure.

#ifndef STREAMDEDUP_BENCH_TWO_SERVERS_HPP_
#define STREAMDEDUP_BENCH_TWO_SERVERS_HPP_

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
#include <string>
#include <string_view>
#include <thread>
#include <vector>

// Prints what is wrong and ends the program.
[[noreturn]] inline void Die(const std::string& what) {
  std::fprintf(stderr, "benchmark: %s\n", what.c_str());
  std::exit(1);
}

inline uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Key number i. All keys are different.
inline int64_t KeyOf(uint64_t i) { return static_cast<int64_t>(Mix(i + 1)); }

// Returns the seconds of CPU that a process has used.
inline double CpuOf(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/schedstat");
  double nanoseconds = 0;
  file >> nanoseconds;
  return nanoseconds / 1e9;
}

// What was measured, one entry a round.
struct Result {
  std::vector<double> rates;  // thousand keys a second
  std::vector<double> cpu;    // microseconds of the server's CPU a key
};

inline double Best(const std::vector<double>& rates) {
  return *std::max_element(rates.begin(), rates.end());
}
inline double Least(const std::vector<double>& cpu) {
  return *std::min_element(cpu.begin(), cpu.end());
}
inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A connection to PostgreSQL, by libpq's variables. Every error ends the program.
class PostgresConnection {
 public:
  PostgresConnection() : connection_(PQconnectdb("")) {
    if (PQstatus(connection_) != CONNECTION_OK) Die(PQerrorMessage(connection_));
    Run("SET client_min_messages = error");
  }
  ~PostgresConnection() { PQfinish(connection_); }
  PostgresConnection(const PostgresConnection&) = delete;

  // Returns the number of rows.
  int Run(const char* sql) { return Check(PQexec(connection_, sql)); }
  void Prepare(const char* name, const char* sql) {
    Check(PQprepare(connection_, name, sql, 0, nullptr));
  }
  // Returns the first value of a query's first row.
  double Number(const char* sql) {
    PGresult* result = PQexec(connection_, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) Die(PQerrorMessage(connection_));
    const double value = std::atof(PQgetvalue(result, 0, 0));
    PQclear(result);
    return value;
  }
  int pid() const { return PQbackendPID(connection_); }

 protected:
  // Frees a result and returns the number of its rows.
  int Check(PGresult* result) {
    const auto status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) Die(PQerrorMessage(connection_));
    const int rows = PQntuples(result);
    PQclear(result);
    return rows;
  }

  PGconn* connection_;
};

// A connection to Redis over a Unix socket.
class RedisConnection {
 public:
  explicit RedisConnection(const char* path) : socket_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) Die(path);
  }
  ~RedisConnection() { close(socket_); }
  RedisConnection(const RedisConnection&) = delete;

  static std::string Command(const std::vector<std::string>& words) {
    std::string message = "*" + std::to_string(words.size()) + "\r\n";
    for (const std::string& word : words) {
      message += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
    }
    return message;
  }

  // Sends one or more commands and returns the replies, which have at least `size` bytes together.
  // A reply that is an error ends the program.
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

 private:
  int socket_;
  std::array<char, 4096> reply_;
};

// Lets all connections send messages of `each` keys side by side, `count` messages together, with
// the keys from number `first` on. `pids` are the processes whose CPU counts. A Server has
// "static std::string Message(filter, first, each)" and "int Send(filter, message, each)". The
// messages are made before the clock starts.
template <typename Server>
void Measure(std::vector<Server*> servers, const std::string& filter, uint64_t first, int count,
             int each, const std::vector<int>& pids, Result* result) {
  std::vector<std::vector<std::string>> messages(servers.size());
  std::vector<std::thread> threads;
  double before = 0, after = 0;

  for (int i = 0; i < count; ++i) {
    const uint64_t from = first + static_cast<uint64_t>(i) * static_cast<uint64_t>(each);
    messages[static_cast<size_t>(i) % servers.size()].push_back(
        Server::Message(filter, from, each));
  }
  for (const int pid : pids) before += CpuOf(pid);
  const auto began = std::chrono::steady_clock::now();
  for (size_t i = 0; i < servers.size(); ++i) {
    threads.emplace_back([&, i] {
      for (const std::string& message : messages[i]) servers[i]->Send(filter, message, each);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  for (const int pid : pids) after += CpuOf(pid);
  const double keys = static_cast<double>(count) * each;
  result->rates.push_back(keys / took.count() / 1000);
  result->cpu.push_back((after - before) / keys * 1e6);
}

#endif  // STREAMDEDUP_BENCH_TWO_SERVERS_HPP_
