// SPDX-License-Identifier: Apache-2.0
//
// skein mesh top: what the ranks behind a running server do, from its metrics. A table that is drawn anew until Ctrl-C; once where standard output is no
// terminal, with --once or with --json.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

#include "bench_serve.h"
#include "bench_serve_client.h"
#include "bench_serve_target.h"
#include "mesh.h"
#include "mesh_top_figures.h"

namespace skein::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{5};

Result<TopPage> ReadFrom(const ClientOptions& client) {
  SKEIN_ASSIGN_OR_RETURN(const FetchedAnswer answer, Fetch(client, "/metrics"));
  if (answer.status == 200) return ReadTopPage(answer.body);
  return Status(Code::kUnavailable, fmt::format("{} is expected to show its metrics, it answers with status {}{}", client.target.authority, answer.status,
                                                answer.status == 401 ? "; see --api-key-file" : "; is it a skein serve?"),
                "--url");
}

}  // namespace

void MeshTopOptions::Describe(FieldList& fields) {
  fields.Group("Server");
  fields.Add("url", "URL", &url, "a running skein serve").FlagOnly();
  fields.Add("api-key-file", "FILE", &api_key_file, "its first key is sent; also OPENAI_API_KEY").FlagOnly();
  fields.Add("ca-file", "FILE", &ca_file, "certificates in PEM that an https server's must be signed by [this machine's]").FlagOnly();
  fields.Add("insecure", "", &insecure, "takes any certificate").FlagOnly();
  fields.Group("Table");
  fields.Add("interval-ms", "N", &interval_ms, "time that a row tells of").Range(50, 600000);
  fields.Add("once", "", &once, "one table, as without a terminal");
  output.Describe(fields);
}

Status RunMeshTop(const MeshTopOptions& options, Context& context) {
  ClientOptions client;
  client.timeout = kPatience;
  SKEIN_ASSIGN_OR_RETURN(client.target, ResolveTarget(options.url, "--url"));
  SKEIN_ASSIGN_OR_RETURN(client.api_key, ApiKey(options.api_key_file));
  server::TlsContext tls;
  if (client.target.secure) {
    SKEIN_ASSIGN_OR_RETURN(tls, server::LoadClientTlsContext(options.ca_file, options.insecure));
    client.tls = tls.get();
  }
  const bool once = options.once || context.json() || ::isatty(STDOUT_FILENO) == 0;
  SKEIN_ASSIGN_OR_RETURN(TopPage before, ReadFrom(client));
  Clock::time_point then = Clock::now();
  while (true) {
    std::this_thread::sleep_for(std::chrono::milliseconds(options.interval_ms));
    SKEIN_ASSIGN_OR_RETURN(TopPage now, ReadFrom(client));
    const Clock::time_point time = Clock::now();
    const double seconds = std::chrono::duration<double>(time - then).count();
    const std::vector<TopRow> rows = TopRows(before, now, seconds);
    if (once) return context.out().Write(context.json() ? TopJson(rows, seconds) : TopText(rows));
    // Home, the table, and away with what was below it.
    SKEIN_RETURN_IF_ERROR(context.out().Write("\x1b[H\x1b[J" + TopText(rows)));
    SKEIN_RETURN_IF_ERROR(context.out().Flush());
    before = std::move(now);
    then = time;
  }
}

}  // namespace skein::app
