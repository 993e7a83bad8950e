// SPDX-License-Identifier: Apache-2.0
#include "server/http/exchange.h"

#include <utility>

#include "server/http/connection.h"
#include "server/http/http_core.h"

namespace skein::server {

Exchange::Exchange(HttpRequest request, std::weak_ptr<Connection> connection, std::weak_ptr<HttpCore> core)
    : request_(std::move(request)),
      connection_(std::move(connection)),
      core_(std::move(core)),
      body_bytes_(request_.body.size()) {}

Exchange::~Exchange() {
  const auto core = core_.lock();
  if (core == nullptr) return;
  core->body_bytes.fetch_sub(body_bytes_);
  if (ended_) return;
  // By the loop, as this may be another thread, or the middle of a handler.
  core->Post([weak = connection_] {
    if (const auto connection = weak.lock()) connection->ExchangeDropped();
  });
}

void Exchange::ReleaseBody() {
  std::string().swap(request_.body);
  if (const auto core = core_.lock()) core->body_bytes.fetch_sub(std::exchange(body_bytes_, 0));
}

bool Exchange::open() const { return !ended_; }

void Exchange::Respond(HttpResponse response) {
  if (ended_) return;
  if (const auto connection = connection_.lock()) connection->Respond(std::move(response));
}

void Exchange::BeginEvents(std::vector<HttpHeader> headers) {
  if (ended_) return;
  if (const auto connection = connection_.lock()) connection->BeginEvents(std::move(headers));
}

void Exchange::Send(std::string_view bytes) {
  if (ended_) return;
  if (const auto connection = connection_.lock()) connection->Send(bytes);
}

void Exchange::EndEvents() {
  if (ended_) return;
  if (const auto connection = connection_.lock()) connection->EndEvents();
}

void Exchange::Fail() {
  if (ended_) return;
  if (const auto connection = connection_.lock()) connection->Fail();
}

std::size_t Exchange::unsent_bytes() const {
  const auto connection = connection_.lock();
  return connection == nullptr || ended_ ? 0 : connection->unsent_bytes();
}

void Exchange::OnGone(std::function<void()> gone) {
  if (!ended_) gone_ = std::move(gone);
}

void Exchange::OnRoom(std::function<void()> room) {
  if (!ended_) room_ = std::move(room);
}

void Exchange::CallRoom() {
  const auto room = room_;  // it may replace itself
  if (room) room();
}

void Exchange::End() {
  ended_ = true;
  gone_ = nullptr;
  room_ = nullptr;
}

}  // namespace skein::server
