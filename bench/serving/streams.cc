// SPDX-License-Identifier: Apache-2.0
//
// streams_bench: how many event streams one I/O thread carries, how late events come, and what a stream costs. The server is
// the HttpServer of `skein serve`; a clock stands in for the engine: each tick makes one event for every active stream,
// handed over in one Post, as the engine's tokens are. Idle streams are open and silent. With --model, threads tokenize
// texts of 1 MB beside it. The clients are a process of their own (streams_client.h).
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/json_writer.h"
#include "base/options.h"
#include "base/status.h"
#include "formats/tokenizer_file.h"
#include "server/http/http_server.h"
#include "streams_client.h"
#include "text/tokenizer.h"

namespace skein::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Shared = std::shared_ptr<server::Exchange>;

constexpr std::size_t kTextBytes = 1 << 20;
constexpr std::size_t kEventBytes = 240;  // as an event with one token of a chat

struct Options {
  int idle = 10'000, active = 1'000, rate = 10, seconds = 20, text_threads = 1;
  std::string model;

  void Describe(FieldList& fields) {
    fields.Add("idle", "N", &idle, "streams that are open and silent").Range(0, 100'000);
    fields.Add("active", "N", &active, "streams with events").Range(1, 100'000);
    fields.Add("rate", "N", &rate, "events a second of each").Range(1, 1000);
    fields.Add("seconds", "N", &seconds, "of events").Range(1, 3600);
    fields.Add("text-threads", "N", &text_threads, "that tokenize 1 MB after 1 MB, with --model").Range(1, 64);
    fields.Add("model", "FILE", &model, "whose tokenizer works beside the streams");
  }
};

std::uint64_t ResidentBytes() {
  std::uint64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// The clients' process: its work, and two pipes. The port goes in, a byte ("all open") and the outcome come out.
struct ClientProcess {
  pid_t pid = -1;
  int to = -1, from = -1;
};

bool ReadWhole(int descriptor, void* bytes, std::size_t count) {
  for (std::size_t done = 0; done < count;) {
    const ssize_t got = ::read(descriptor, static_cast<char*>(bytes) + done, count - done);
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Result<ClientProcess> ForkClients(const Options& options) {
  int in[2], out[2];
  if (::pipe(in) != 0 || ::pipe(out) != 0) return MissingError("two pipes are needed, found none; raise `ulimit -n`");
  ClientProcess clients{::fork(), in[1], out[0]};
  if (clients.pid < 0) return MissingError("a second process is needed, and fork failed; raise `ulimit -u`");
  if (clients.pid > 0) {
    ::close(in[0]);
    ::close(out[1]);
    return clients;
  }
  ::close(in[1]);
  ::close(out[0]);
  RaiseDescriptorLimit();
  int port = 0;
  if (!ReadWhole(in[0], &port, sizeof port)) ::_exit(1);
  const StreamsOutcome outcome = RunStreamClients(port, options.idle, options.active, out[1]);
  ::_exit(::write(out[1], &outcome, sizeof outcome) == sizeof outcome ? 0 : 1);
}

class Measurement {
 public:
  explicit Measurement(const Options& options) : options_(options) {}

  Result<std::string> Run() {
    SKEIN_ASSIGN_OR_RETURN(const ClientProcess clients, ForkClients(options_));  // before there are threads
    if (!options_.model.empty()) {
      SKEIN_ASSIGN_OR_RETURN(const formats::TokenizerFile file, formats::OpenTokenizer(options_.model));
      SKEIN_ASSIGN_OR_RETURN(tokenizer_, text::Tokenizer::Create(file.data));
    }
    server::Router router;
    router.Add({"POST", "/idle", server::Scope::kOpen, [this](Shared exchange) { Begin(idle_, std::move(exchange)); }});
    router.Add({"POST", "/active", server::Scope::kOpen, [this](Shared exchange) { Begin(active_, std::move(exchange)); }});
    server::HttpOptions http;
    http.port = 0;
    SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<server::HttpServer> server, server::HttpServer::Start(http, std::move(router)));
    const std::uint64_t before = ResidentBytes();
    const int port = server->port();
    char open = 0;
    if (::write(clients.to, &port, sizeof port) != sizeof port || !ReadWhole(clients.from, &open, 1)) return InternalError("the clients have ended early");
    const std::uint64_t after = ResidentBytes();
    {
      std::vector<std::jthread> text_work;
      for (int i = 0; tokenizer_ != nullptr && i < options_.text_threads; ++i) text_work.emplace_back([this](std::stop_token stop) { Tokenize(stop); });
      MakeEvents(*server);
    }
    StreamsOutcome outcome;
    const bool told = ReadWhole(clients.from, &outcome, sizeof outcome);
    ::waitpid(clients.pid, nullptr, 0);
    server->Stop();
    if (!told) return InternalError("the clients have ended without an outcome");
    return Json(outcome, static_cast<double>(after - std::min(before, after)) / (options_.idle + options_.active));
  }

 private:
  static void Begin(std::vector<Shared>& streams, Shared exchange) {
    exchange->BeginEvents();
    streams.push_back(std::move(exchange));
  }

  // The engine's place: a tick is a step.
  void MakeEvents(server::HttpServer& server) {
    const std::uint64_t count = static_cast<std::uint64_t>(options_.rate) * static_cast<std::uint64_t>(options_.seconds);
    const auto period = std::chrono::nanoseconds(1'000'000'000 / options_.rate);
    Clock::time_point next = Clock::now();
    for (std::uint64_t sequence = 0; sequence < count; ++sequence) {
      std::this_thread::sleep_until(next += period);
      const std::int64_t made_ns = Clock::now().time_since_epoch().count();
      server.Post([this, sequence, made_ns] {
        std::string event = fmt::format("data: {} {} ", sequence, made_ns);
        event.resize(kEventBytes, 'x');
        event += "\n\n";
        for (const Shared& exchange : active_) exchange->Send(event);
      });
    }
    server.Post([this] {
      for (const Shared& exchange : active_) exchange->EndEvents();
      active_.clear();
    });
  }

  void Tokenize(const std::stop_token& stop) {
    std::string text;
    while (text.size() < kTextBytes) text += fmt::format("Line {} of a long document, with words and 12345 numbers.\n", text.size());
    while (!stop.stop_requested()) {
      static_cast<void>(tokenizer_->Encode(text));
      ++texts_;
    }
  }

  std::string Json(const StreamsOutcome& outcome, double bytes_each) const {
    JsonWriter json;
    json.BeginObject().Member("idle", options_.idle).Member("active", options_.active).Member("rate", options_.rate);
    json.Member("seconds", options_.seconds).Member("opened", outcome.opened).Member("failed", outcome.failed);
    json.Member("events", outcome.events);
    json.Member("events_expected", static_cast<std::uint64_t>(options_.active) * static_cast<std::uint64_t>(options_.rate * options_.seconds));
    json.Member("misplaced", outcome.misplaced).Member("delay_median_ms", outcome.delay_median_ms);
    json.Member("delay_p99_ms", outcome.delay_p99_ms).Member("delay_max_ms", outcome.delay_max_ms);
    json.Member("bytes_each", bytes_each).Member("texts_of_1mb", texts_.load()).EndObject();
    return json.Take() + "\n";
  }

  const Options options_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::vector<Shared> idle_, active_;  // the I/O thread's
  std::atomic<std::uint64_t> texts_{0};
};

Status Main(const std::vector<std::string>& arguments) {
  Options options;
  FieldList fields;
  options.Describe(fields);
  if (!arguments.empty() && arguments.front() == "--help") {
    std::fputs(fields.Help().c_str(), stdout);
    return OkStatus();
  }
  SKEIN_RETURN_IF_ERROR(fields.Parse(arguments, "streams_bench", "streams", {}, [](const char* name) -> const char* { return std::getenv(name); }));
  SKEIN_ASSIGN_OR_RETURN(const std::string json, Measurement(options).Run());
  std::fputs(json.c_str(), stdout);
  return OkStatus();
}

}  // namespace
}  // namespace skein::bench

int main(int count, char** arguments) {
  const skein::Status status = skein::bench::Main(std::vector<std::string>(arguments + 1, arguments + count));
  if (status.ok()) return 0;
  std::fprintf(stderr, "streams_bench: %s\n", status.message().c_str());
  return 1;
}
