// SPDX-License-Identifier: Apache-2.0
#include "server/http/http_server.h"

#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <sys/resource.h>

#include "server/http/http_core.h"

namespace skein::server {
namespace {

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));  // the old limit is still one to live with
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::Start(HttpOptions options, Router router) {
  RaiseDescriptorLimit();
  auto core = std::make_shared<HttpCore>(std::move(options));
  SKEIN_RETURN_IF_ERROR(core->Open(std::move(router)));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(core)));
}

HttpServer::HttpServer(std::shared_ptr<HttpCore> core) : core_(std::move(core)) {
  core_->Start();
  // Signals are the program's business, on its own thread; and SIGPIPE must not end us when TLS writes.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([core = core_] { core->Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

HttpServer::~HttpServer() { Stop(); }

std::string HttpServer::url() const {
  const auto endpoint = core_->endpoint();
  const std::string address = endpoint.address().to_string();
  return fmt::format("{}://{}:{}", core_->tls() ? "https" : "http",
                     endpoint.address().is_v6() ? "[" + address + "]" : address, endpoint.port());
}

int HttpServer::port() const { return core_->endpoint().port(); }

void HttpServer::Post(std::function<void()> function) { core_->Post(std::move(function)); }

Timer HttpServer::After(std::chrono::nanoseconds delay, std::function<void()> function) {
  return core_->After(delay, std::move(function));
}

std::size_t HttpServer::connections() const { return core_->connections.load(); }

std::size_t HttpServer::streams() const { return core_->streams.load(); }

void HttpServer::StopAccepting() {
  core_->Post([core = core_.get()] { core->StopAccepting(); });
}

void HttpServer::Stop() {
  if (!thread_.joinable()) return;
  core_->Post([core = core_.get()] { core->CloseAll(); });
  thread_.join();
}

}  // namespace skein::server
