// SPDX-License-Identifier: Apache-2.0
//
// The writing half of a connection.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "server/http/connection.h"
#include "server/http/error_response.h"
#include "server/http/request_id.h"
#include "server/http/response_head.h"

namespace skein::server {
namespace {

using boost::asio::ip::tcp;

// A buffer that is larger than this when it has run empty gives its memory back.
constexpr std::size_t kKeptBufferMax = 4 * 1024;

void Empty(std::string& buffer) {
  if (buffer.capacity() > kKeptBufferMax) {
    std::string().swap(buffer);
  } else {
    buffer.clear();
  }
}

}  // namespace

void Connection::Respond(HttpResponse response) {
  SKEIN_CHECK(answer_ == Answer::kWaiting);
  EndAnswer(response.status);
  WriteAnswer(std::move(response));
}

void Connection::WriteAnswer(HttpResponse response) {
  if (core_.stopping()) close_after_ = true;
  const bool has_body = response.status != 204 && response.status != 304;
  AppendHead(response.status, has_body ? std::string_view(response.content_type) : std::string_view(), response.headers,
             has_body ? fmt::format("Content-Length: {}\r\n", response.body.size()) : std::string());
  if (has_body && !is_head_request_) out_ += response.body;
  Flush();
}

void Connection::AppendHead(int status, std::string_view content_type, const std::vector<HttpHeader>& headers,
                            std::string_view framing) {
  if (request_id_.empty()) request_id_ = NewRequestId();
  fmt::format_to(std::back_inserter(out_), "HTTP/1.1 {} {}\r\nServer: skein\r\n", status, ReasonOf(status));
  if (!content_type.empty()) AppendHeader(out_, "Content-Type", content_type);
  AppendHeader(out_, "X-Request-Id", request_id_);
  AppendHeader(out_, "X-Content-Type-Options", "nosniff");
  for (const HttpHeader& header : headers) AppendHeader(out_, header.name, header.value);
  out_ += framing;
  if (close_after_) {
    out_ += "Connection: close\r\n";
  } else if (is_http10_) {
    out_ += "Connection: keep-alive\r\n";
  }
  out_ += "\r\n";
}

void Connection::Refuse(Refusal refusal) { TurnAway(ErrorResponse(refusal.status, refusal.message), /*close=*/true); }

void Connection::TurnAway(HttpResponse response, bool close) {
  if (close) close_after_ = true;
  EnterState(State::kAnswering);
  Note(nullptr, response.status, /*cut=*/false);
  ReleaseBodyBytes(std::exchange(body_bytes_, 0));
  WriteAnswer(std::move(response));
}

void Connection::BeginEvents(std::vector<HttpHeader> headers) {
  SKEIN_CHECK(answer_ == Answer::kWaiting);
  answer_ = Answer::kStreaming;
  stream_status_ = 200;
  core_.streams.fetch_add(1);
  if (core_.stopping() || is_http10_) close_after_ = true;
  headers.push_back({"Cache-Control", "no-cache"});
  headers.push_back({"X-Accel-Buffering", "no"});  // proxies that gather answers would hold events back
  AppendHead(200, "text/event-stream", headers, is_http10_ ? "" : "Transfer-Encoding: chunked\r\n");
  last_write_ = std::chrono::steady_clock::now();
  QueueFlush();
}

void Connection::Send(std::string_view bytes) {
  SKEIN_CHECK(answer_ == Answer::kStreaming);
  if (bytes.empty() || is_head_request_) return;
  events_ += bytes;
  if (unsent_bytes() > kUnsentMax) was_slow_ = true;
  QueueFlush();
}

void Connection::QueueFlush() {
  if (std::exchange(flush_queued_, true)) return;
  core_.QueueFlush(shared_from_this());
}

void Connection::EndEvents() {
  SKEIN_CHECK(answer_ == Answer::kStreaming);
  FrameEvents();
  if (!is_http10_ && !is_head_request_) out_ += "0\r\n\r\n";
  EndAnswer(200);
  QueueFlush();
}

void Connection::Fail() {
  if (answer_ == Answer::kNone) return;
  const bool was_streaming = answer_ == Answer::kStreaming;
  EndAnswer(stream_status_, /*cut=*/true);
  if (was_streaming) Flush();  // what was said before
  if (state_ == State::kClosed) return;
  if (is_http10_) {
    // There the end of the connection is the right end of an answer; a reset is not.
    boost::system::error_code ignored;
    socket_.set_option(boost::asio::socket_base::linger(true, 0), ignored);
  }
  Close();
}

void Connection::ExchangeDropped() {
  if (answer_ == Answer::kWaiting) {
    Respond(ErrorResponse(500, "the server failed at this request; its log says more"));
  } else {
    Fail();
  }
}

void Connection::FrameEvents() {
  if (events_.empty()) return;
  if (is_http10_) {
    out_ += events_;
  } else {
    fmt::format_to(std::back_inserter(out_), "{:x}\r\n", events_.size());
    out_.append(events_).append("\r\n");
  }
  Empty(events_);
}

void Connection::EndAnswer(int status, bool cut) {
  if (answer_ == Answer::kStreaming) core_.streams.fetch_sub(1);
  answer_ = Answer::kNone;
  const auto exchange = exchange_.lock();
  Note(exchange.get(), status, cut);
  // A callback may hold the exchange that holds it; here is where that ends.
  if (exchange != nullptr) exchange->End();
}

void Connection::Note(const Exchange* exchange, int status, bool cut) const {
  if (!core_.options().on_answer) return;
  core_.options().on_answer({.request = exchange != nullptr ? &exchange->request() : nullptr,
                             .route = route_ != nullptr ? std::string_view(route_->path) : std::string_view(),
                             .status = status,
                             .cut = cut,
                             .duration = std::chrono::steady_clock::now() - began_});
}

void Connection::Flush() {
  flush_queued_ = false;
  if (state_ == State::kClosed) return;
  FrameEvents();
  const auto now = std::chrono::steady_clock::now();
  if (!blocked_) last_progress_ = now;
  while (out_begin_ < out_.size()) {
    const Io io = transport_.Write(std::string_view(out_).substr(out_begin_));
    if (io.kind == Io::Kind::kAgain) break;
    if (io.kind != Io::Kind::kDone) return Close();
    out_begin_ += io.bytes;
    last_progress_ = last_write_ = now;
  }
  blocked_ = out_begin_ < out_.size();
  if (blocked_) {
    if (out_begin_ > out_.size() / 2) out_.erase(0, std::exchange(out_begin_, 0));
    NoteProgress(now);
    WaitWritable();
  } else {
    out_begin_ = 0;
    Empty(out_);
    if (state_ == State::kAnswering && answer_ == Answer::kNone) return OnAllSent();
  }
  if (was_slow_ && answer_ == Answer::kStreaming && unsent_bytes() < kUnsentMax / 2) {
    was_slow_ = false;
    if (const auto exchange = exchange_.lock()) exchange->CallRoom();
  }
}

void Connection::WaitWritable() {
  if (waiting_writable_ || state_ == State::kClosed) return;
  if (transport_.secure() && !transport_.wants_write()) return WaitReadable();
  waiting_writable_ = true;
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](const boost::system::error_code& error) {
    self->waiting_writable_ = false;
    if (error || self->state_ == State::kClosed) return;
    if (self->state_ == State::kHandshake) return self->OnReadable();
    self->Flush();
  });
}

void Connection::OnAllSent() {
  exchange_.reset();
  route_ = nullptr;
  stream_status_ = 0;
  was_slow_ = false;
  reading_.reset();
  request_id_.clear();
  if (close_after_ || core_.stopping()) return BeginDrain();
  is_head_request_ = is_http10_ = false;
  EnterState(State::kIdle);
  if (processing_) return;  // its loop goes on with what has come
  if (!next_.empty()) {
    const std::string next = std::exchange(next_, std::string());
    Process(next);
  }
  WaitReadable();
}

void Connection::BeginDrain() {
  if (input_ended_) return Close();
  EnterState(State::kDraining);
  std::string().swap(next_);
  transport_.ShutdownWrite();
  WaitReadable();
}

}  // namespace skein::server
