// SPDX-License-Identifier: Apache-2.0
//
// skein serve: loads a model and answers over HTTP until it is told to stop. SIGTERM or SIGINT drains, a second one
// stops at once.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "api/conversation.h"
#include "build_info.h"
#include "commands.h"
#include "load.h"
#include "model_cache.h"
#include "scheduler/policies/registry.h"
#include "server/http/http_server.h"
#include "server/http/router.h"
#include "server/server.h"
#include "signal_watcher.h"
#include "supervisor/supervisor.h"
#include "text/chat_template.h"

namespace skein::app {
namespace {

constexpr int kStoppedExit = 128;  // and the signal's number
constexpr int kKvContexts = 16;    // without --kv-memory, where memory has room for that many
constexpr int kEngineRequestsMin = 4096;

// What signals do: before the server is there they end the program, then they drain it, then they stop it.
class Life {
 public:
  explicit Life(const Context& context) : context_(context) {}
  void OnSignal(int signal) {
    const std::lock_guard lock(mutex_);
    if (server_ == nullptr) ::_exit(kStoppedExit + signal);
    if (++signals_ == 1) {
      context_.log().Write(LogLevel::kInfo, "draining: running answers end, new ones are refused; a second signal stops at once");
      server_->Drain([this] { End(); });
    } else {
      ended_.notify_all();
    }
  }
  void SetServer(server::Server* server) {
    const std::lock_guard lock(mutex_);
    server_ = server;
  }
  // True: everything was answered. False: a second signal cut that short.
  bool WaitForEnd() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return drained_ || signals_ > 1; });
    return drained_;
  }

 private:
  void End() {
    const std::lock_guard lock(mutex_);
    drained_ = true;
    ended_.notify_all();
  }

  const Context& context_;
  std::mutex mutex_;
  std::condition_variable ended_;
  server::Server* server_ = nullptr;
  int signals_ = 0;
  bool drained_ = false;
};

// A name for the API: the file's, without what has no place in a path or an option.
std::string ModelId(const ServeOptions& options, const std::string& path) {
  if (!options.served_model_name.empty()) return options.served_model_name.front();
  const std::filesystem::path file(path);
  std::string id = std::filesystem::is_directory(file) ? std::filesystem::weakly_canonical(file).filename().string()
                                                       : file.stem().string();
  for (char& c : id) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!plain) c = '-';
  }
  return id.empty() ? "model" : id;
}

// Names that a request can say, and that a log and a metric's label can hold. Checked before anything is loaded.
Status CheckNames(const std::vector<std::string>& names) {
  constexpr std::size_t kNameMax = 512;  // bytes; the API's `model` takes no more
  for (const std::string& name : names) {
    const bool plain = std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    if (plain && !name.empty() && name.size() <= kNameMax) continue;
    return InvalidArgument(fmt::format("--served-model-name takes 1 to {} bytes without control characters, found {}", kNameMax,
                                       plain ? fmt::format("{} bytes", name.size()) : "a control character"));
  }
  return OkStatus();
}

// Changes when an answer to the same request may change.
std::string Fingerprint(const ModelInfo& info, const std::string& id) {
  constexpr std::uint64_t kBasis = 0xcbf29ce484222325, kPrime = 0x100000001b3;  // FNV-1a
  std::uint64_t hash = kBasis;
  const std::string facts = fmt::format("{}|{}|{}|{}|{}|{}|{}|{}", kBuildCommit, info.arithmetic, info.kernels,
                                        info.kv_dtype, id, info.name, info.parameters, info.weight_format);
  for (const char c : facts) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  return fmt::format("fp_{:012x}", hash & 0xffffffffffff);
}

Result<api::Machine> MachineFor(const ServeOptions& options) {
  SKEIN_ASSIGN_OR_RETURN(api::Machine machine, api::ResolveMachine(options.machine.Resolved()));
  machine.sequences = options.max_num_seqs;
  machine.step_outputs = std::max(machine.step_outputs, options.max_num_seqs);
  machine.kv_bytes = options.kv_memory;
  machine.kv_contexts = kKvContexts;
  machine.policy = options.policy;
  machine.prefix_cache = !options.no_prefix_cache;
  machine.simulated = options.simulated;
  // Sixteen choices for each admitted request; who asks for more may meet a full engine, which is 429 as well.
  machine.requests = std::max(kEngineRequestsMin, options.max_concurrency * 16);
  return machine;
}

server::ModelCard CardOf(const ServeOptions& options, const api::LoadedModel& loaded,
                         const text::ChatTemplate* chat_template) {
  const formats::ModelFile& file = loaded.file();
  server::ModelCard card;
  card.id = ModelId(options, file.path());
  if (options.served_model_name.size() > 1) {
    card.aliases.assign(options.served_model_name.begin() + 1, options.served_model_name.end());
  }
  card.created_s = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  card.tokenizer = &loaded.tokenizer();
  card.chat_template = chat_template;
  card.stop_tokens = file.config().eos;
  card.context = loaded.info().context;
  card.vocabulary = loaded.info().vocabulary;
  card.embedding_dimensions = file.config().hidden;
  card.fingerprint = Fingerprint(loaded.info(), card.id);
  card.bos = api::TokenAsWritten(file.tokenizer(), file.tokenizer().bos).value_or("");
  card.eos = api::TokenAsWritten(file.tokenizer(), file.tokenizer().eos).value_or("");
  return card;
}

server::HttpOptions HttpOptionsOf(const ServeOptions& options) {
  server::HttpOptions http;
  http.host = options.host;
  http.port = options.port;
  http.tls_cert = options.tls_cert;
  http.tls_key = options.tls_key;
  http.api_key_file = options.api_key_file;
  // Only from the environment: a flag's value would stand in every list of processes.
  if (const char* keys = std::getenv("SKEIN_API_KEYS")) http.api_keys = keys;
  http.allowed_hosts = options.allowed_host;
  http.allowed_origins = options.allowed_origin;
  return http;
}

// A port that is taken, a key file or a certificate that cannot be read: said before a model is loaded for minutes.
Status TryToListen(const ServeOptions& options) {
  server::HttpOptions http = HttpOptionsOf(options);
  http.log = [](LogLevel, std::string_view) {};  // the real start says it again
  return server::HttpServer::Start(std::move(http), server::Router()).status();
}

server::ServerOptions ServerOptionsOf(const ServeOptions& options, server::ModelCard card) {
  server::ServerOptions server;
  server.http = HttpOptionsOf(options);
  server.card = std::move(card);
  server.running_max = static_cast<std::size_t>(options.max_concurrency);
  server.waiting_max = static_cast<std::size_t>(options.max_queue);
  server.log_prompts = options.log_prompts;
  server.otlp_endpoint = options.otlp_endpoint;
  if (const char* endpoint = std::getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); endpoint != nullptr && options.otlp_endpoint.empty()) {
    server.otlp_endpoint = endpoint;
  }
  if (const char* service = std::getenv("OTEL_SERVICE_NAME"); service != nullptr && *service != '\0') server.otlp_service = service;
  server.version = kVersion;
  server.commit = kBuildCommit;
  return server;
}

std::vector<std::string> PolicyNames() {
  std::vector<std::string> names;
  for (const scheduler::Policy* policy : scheduler::Policies()) names.emplace_back(policy->name());
  return names;
}

}  // namespace

void ServeOptions::Describe(FieldList& fields) {
  fields.AddPositional("MODEL", &model, true, "a GGUF file, a Hugging Face folder, a name, or default")
      .CalledElsewhere({"model", "m"});
  fields.Group("Serving");
  fields.Add("host", "ADDRESS", &host, "where to listen; 127.0.0.1: this machine only");
  fields.Add("port", "N", &port, "0 takes a free one and says which").Range(0, 65535);
  fields.Add("served-model-name", "NAME", &served_model_name, "the model's name in the API; may be repeated: aliases [the file's]")
      .CalledElsewhere({"alias", "a"});
  fields.Add("allowed-host", "NAME", &allowed_host, "a name that clients may call this server by; may be repeated");
  fields.Add("allowed-origin", "ORIGIN", &allowed_origin, "a web page's origin that may ask; may be repeated");
  fields.Add("api-key-file", "FILE", &api_key_file, "one key a line, then a tenant's name if wanted; also SKEIN_API_KEYS")
      .CalledElsewhere({"api-key"});
  fields.Add("tls-cert", "FILE", &tls_cert, "certificate chain in PEM; with --tls-key")
      .CalledElsewhere({"ssl-certfile", "ssl-cert-file"});
  fields.Add("tls-key", "FILE", &tls_key, "private key in PEM").CalledElsewhere({"ssl-keyfile", "ssl-key-file"});
  fields.Group("Load");
  fields.Add("max-concurrency", "N", &max_concurrency, "requests admitted at once").Range(1, 65536);
  fields.Add("max-queue", "N", &max_queue, "requests that wait; beyond: 429").Range(0, 1 << 20);
  fields.Add("max-num-seqs", "N", &max_num_seqs, "sequences computed in one step, at most")
      .Range(1, 4096)
      .CalledElsewhere({"parallel", "np"});
  fields.Add("kv-memory", "SIZE", &kv_memory, "the KV cache: 4GiB [a quarter of what is free, at most 16 contexts]")
      .Bytes()
      .CalledElsewhere({"gpu-memory-utilization", "kv-cache-memory-bytes", "kv-cache-memory"});
  fields.Add("policy", "NAME", &policy, "who is served first").OneOf(PolicyNames());
  fields.Add("no-prefix-cache", "", &no_prefix_cache, "computes repeated beginnings of prompts every time");
  fields.Add("otlp-endpoint", "URL", &otlp_endpoint, "sends traces there, http://HOST:4318; also OTEL_EXPORTER_OTLP_ENDPOINT");
  fields.Add("log-prompts", "", &log_prompts, "prompts stand in the log");
  fields.Add("simulated", "", &simulated, "serves no model: tokens are hashes, steps take a predicted time").FlagOnly().ForDevelopers();
  machine.Describe(fields);
  output.Describe(fields);
}

Status RunServe(const ServeOptions& options, Context& context) {
  SKEIN_RETURN_IF_ERROR(supervisor::RefuseInsideMpiJob(options.machine.engine.tensor));
  SKEIN_RETURN_IF_ERROR(CheckNames(options.served_model_name));
  context.WriteLogBehind();  // answers do not wait for whoever reads the log
  Life life(context);
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<SignalWatcher> watcher,
                         SignalWatcher::Create([&life](int signal) { life.OnSignal(signal); }));
  SKEIN_ASSIGN_OR_RETURN(const api::Machine machine, MachineFor(options));
  SKEIN_RETURN_IF_ERROR(TryToListen(options));
  context.log().Write(LogLevel::kInfo, fmt::format("loading {}", options.model));
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<api::LoadedModel> loaded,
                         LoadForMeasuring(options.model, machine, context));
  const std::string& source = loaded->file().chat_template();
  std::unique_ptr<const text::ChatTemplate> chat_template;
  if (!source.empty()) {
    Result<std::unique_ptr<const text::ChatTemplate>> parsed = text::ChatTemplate::Parse(source);
    if (parsed.ok()) {
      chat_template = std::move(parsed).value();
    } else {
      context.log().Write(LogLevel::kWarning, fmt::format("no chat is served: the model's chat template has an error: {}",
                                                          parsed.status().message()));
    }
  }
  server::ServerOptions server_options = ServerOptionsOf(options, CardOf(options, *loaded, chat_template.get()));
  server_options.reasoning = source.find("<think>") != std::string::npos || source.find("</think>") != std::string::npos;
  const std::string id = server_options.card.id;
  if (options.simulated) context.log().Write(LogLevel::kWarning, "--simulated: answers are noise, and nothing is computed");
  const SteadyClock clock;
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<server::Server> server,
                         server::Server::Start(std::move(server_options), loaded->client(), clock, context.log()));
  life.SetServer(server.get());
  const ModelInfo& info = loaded->info();
  if (machine.context == 0 && info.context < info.model_context) {
    context.log().Write(LogLevel::kWarning, fmt::format("the KV cache holds a context of {} tokens, the model was made for {}; raise "
                                                        "--kv-memory for longer prompts",
                                                        info.context, info.model_context));
  }
  const auto kv_tokens = static_cast<std::uint64_t>(loaded->limits().blocks) *
                         static_cast<std::uint64_t>(loaded->limits().block_tokens);
  context.log().Write(LogLevel::kInfo,
                      fmt::format("{} loaded in {:.0f} ms: {} threads, kernels {}, arithmetic {}, KV {} for {} tokens, context {}",
                                  info.name, info.load_ms, info.threads, info.kernels, info.arithmetic, info.kv_dtype,
                                  kv_tokens, info.context));
  NoteWire(info, context);
  context.Tell(fmt::format("skein: serving {} at {} (pid {})", id, server->url(), ::getpid()));
  const bool drained = life.WaitForEnd();
  server->Stop();
  if (!drained) return Status(Code::kCancelled, "stopped by a second signal before all answers were done");
  return OkStatus();
}

}  // namespace skein::app
