// SPDX-License-Identifier: Apache-2.0
#include "server/http/http_server.h"

#include <utility>

#include <fmt/format.h>
#include <sys/resource.h>

#include "base/thread_without_signals.h"
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
  thread_ = ThreadWithoutSignals([core = core_] { core->Run(); });  // also because of SIGPIPE, which TLS writes may cause
}

HttpServer::~HttpServer() { Stop(); }

std::string HttpServer::url() const {
  return fmt::format("{}://{}", core_->tls() ? "https" : "http", NameOf(core_->endpoint()));
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

void HttpServer::WhenAnswered(std::function<void()> told) { core_->WhenAnswered(std::move(told)); }

void HttpServer::Stop() {
  if (!thread_.joinable()) return;
  core_->Post([core = core_.get()] { core->CloseAll(); });
  thread_.join();
}

}  // namespace skein::server
