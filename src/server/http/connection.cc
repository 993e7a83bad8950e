// SPDX-License-Identifier: Apache-2.0
//
// The reading half of a connection.
#include "server/http/connection.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <variant>

#include "base/check.h"
#include "server/http/error_response.h"
#include "server/http/request_id.h"
#include "server/http/target.h"

namespace skein::server {
namespace {

using boost::asio::ip::tcp;

// Bytes of a next request that are kept while an answer is made; more stay in the kernel.
constexpr std::size_t kNextMax = 16 * 1024;
// Reads in a row before others have their turn.
constexpr int kReadsPerTurn = 4;
// Thrown away at most after a last answer, for a client that does not stop sending.
constexpr std::size_t kDrainMax = 128 * 1024 * 1024;
// A body's memory before its bytes have come.
constexpr std::size_t kBodyReserveMax = 64 * 1024;
// For logs and metrics, as nginx has it: the client left before its answer had a status.
constexpr int kClientLeft = 499;

}  // namespace

Connection::Connection(HttpCore& core, tcp::socket socket, std::string peer)
    : core_(core), socket_(std::move(socket)), peer_(std::move(peer)) {}

void Connection::Start(SSL_CTX* tls, ConnectionList::iterator place) {
  place_ = place;
  transport_.Attach(socket_.native_handle(), tls);
  EnterState(transport_.secure() ? State::kHandshake : State::kIdle);
  WaitReadable();
}

void Connection::EnterState(State state) {
  const bool answered = state_ == State::kAnswering && state != State::kAnswering;
  state_ = state;
  since_ = std::chrono::steady_clock::now();
  if (answered) core_.OnAnswered();
}

bool Connection::WantsInput() const {
  if (state_ == State::kClosed || input_ended_) return false;
  return state_ != State::kAnswering || next_.size() < kNextMax;
}

void Connection::WaitReadable() {
  if (waiting_readable_ || !WantsInput()) return;
  waiting_readable_ = true;
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const boost::system::error_code& error) {
    self->waiting_readable_ = false;
    if (!error) self->OnReadable();
  });
}

void Connection::OnReadable() {
  if (state_ == State::kHandshake && !Handshake()) return;
  // TLS may have been waiting for this to go on writing.
  if (transport_.secure() && unsent_bytes() > 0) Flush();
  for (int read = 0; read < kReadsPerTurn; ++read) {
    if (!WantsInput()) return;
    const std::span<char> scratch = core_.scratch();
    const Io io = transport_.Read(scratch);
    switch (io.kind) {
      case Io::Kind::kAgain: return WaitReadable();
      case Io::Kind::kError: return Close();
      case Io::Kind::kEof: return OnEndOfInput();
      case Io::Kind::kDone: Process(std::string_view(scratch.data(), io.bytes)); break;
    }
  }
  if (waiting_readable_ || !WantsInput()) return;
  // Others first. (Bytes that TLS has decrypted would not wake a wait for the socket.)
  waiting_readable_ = true;
  core_.Post([self = shared_from_this()] {
    self->waiting_readable_ = false;
    self->OnReadable();
  });
}

bool Connection::Handshake() {
  const Io io = transport_.Handshake();
  if (io.kind == Io::Kind::kDone) {
    EnterState(State::kIdle);
    return true;
  }
  if (io.kind != Io::Kind::kAgain) {
    Close();
  } else if (transport_.wants_write()) {
    WaitWritable();
  } else {
    WaitReadable();
  }
  return false;
}

void Connection::OnEndOfInput() {
  input_ended_ = true;
  // An answer that is complete still goes out to a client that only closed its sending half.
  if (state_ == State::kAnswering && answer_ == Answer::kNone && unsent_bytes() > 0) {
    close_after_ = true;
    return;
  }
  Close();
}

void Connection::Process(std::string_view bytes) {
  SKEIN_CHECK(!processing_);
  processing_ = true;
  while (!bytes.empty()) {
    switch (state_) {
      case State::kIdle:
        reading_ = std::make_unique<Reading>(core_.limits());
        EnterState(State::kHead);
        began_ = since_;
        [[fallthrough]];
      case State::kHead:
        bytes.remove_prefix(TakeHead(bytes));
        if (state_ == State::kHead && reading_->head_parser.state() == ParseState::kDone) OnHead(!bytes.empty());
        break;
      case State::kBody: bytes.remove_prefix(TakeBody(bytes)); break;
      case State::kAnswering:
        if (!close_after_) next_.append(bytes);
        bytes = {};
        break;
      case State::kDraining:
        drained_ += bytes.size();
        if (drained_ > kDrainMax) Close();
        bytes = {};
        break;
      case State::kHandshake:
      case State::kClosed: bytes = {}; break;
    }
  }
  processing_ = false;
}

std::size_t Connection::TakeHead(std::string_view bytes) {
  const std::size_t taken = reading_->head_parser.Feed(bytes);
  if (reading_->head_parser.state() == ParseState::kRefused) Refuse(reading_->head_parser.refusal());
  return taken;
}

void Connection::OnHead(bool more_is_here) {
  RequestHead head = reading_->head_parser.TakeHead();
  is_head_request_ = head.method == "HEAD";
  is_http10_ = head.minor == 0;
  const std::string* id = head.Find("x-request-id");
  request_id_ = id != nullptr && IsRequestId(*id) ? *id : NewRequestId();
  Framing& framing = reading_->framing;
  if (const auto refusal = ReadFraming(head, framing)) return Refuse(*refusal);
  std::string path, query;
  if (const auto refusal = ReadTarget(head, path, query)) return Refuse(*refusal);
  auto verdict = core_.gate().Admit(head, path);
  close_after_ = !framing.keep_alive;
  if (auto* away = std::get_if<TurnedAway>(&verdict)) {
    // A body that nobody will read ends the connection, too.
    return TurnAway(std::move(away->response), away->hostile || framing.body != Framing::Body::kNone);
  }
  if (framing.body == Framing::Body::kLength && framing.length > core_.limits().body_bytes) {
    return Refuse({413, "the request's body is too large"});
  }
  FillRequest(std::move(head), std::move(path), std::move(query), std::move(std::get<Admission>(verdict)));
  if (framing.body == Framing::Body::kNone) return Dispatch();
  if (framing.body == Framing::Body::kLength) {
    reading_->request.body.reserve(std::min<std::size_t>(framing.length, kBodyReserveMax));
  }
  EnterState(State::kBody);
  if (framing.expects_continue && !more_is_here) {
    out_ += "HTTP/1.1 100 Continue\r\n\r\n";
    Flush();
  }
}

void Connection::FillRequest(RequestHead head, std::string path, std::string query, Admission admission) {
  HttpRequest& request = reading_->request;
  request.method = std::move(head.method);
  request.path = std::move(path);
  request.query = std::move(query);
  request.rest = std::move(admission.rest);
  request.headers = std::move(head.headers);
  request.peer = peer_;
  request.id = request_id_;
  request.tenant = std::move(admission.tenant);
  if (const std::string* trace = request.Find("traceparent"); trace != nullptr && IsTraceparent(*trace)) {
    request.traceparent = *trace;
  }
  reading_->route = admission.route;
}

std::size_t Connection::TakeBody(std::string_view bytes) {
  std::string& body = reading_->request.body;
  const std::size_t before = body.size();
  std::size_t taken = 0;
  bool complete = false;
  if (reading_->framing.body == Framing::Body::kLength) {
    taken = std::min<std::size_t>(bytes.size(), reading_->framing.length - before);
    body.append(bytes.substr(0, taken));
    complete = body.size() == reading_->framing.length;
  } else {
    ChunkParser& chunks = reading_->chunk_parser;
    taken = chunks.Feed(bytes, body);
    complete = chunks.state() == ParseState::kDone;
  }
  const std::size_t added = body.size() - before;
  body_bytes_ += added;
  const std::size_t all = core_.body_bytes.fetch_add(added) + added;
  if (reading_->chunk_parser.state() == ParseState::kRefused) {
    Refuse(reading_->chunk_parser.refusal());
  } else if (all > core_.limits().bodies_bytes) {
    Refuse({503, "too many large requests at once; try again in a moment"});
  } else if (complete) {
    Dispatch();
  }
  return taken;
}

void Connection::Dispatch() {
  EnterState(State::kAnswering);
  answer_ = Answer::kWaiting;
  route_ = reading_->route;
  auto exchange = std::make_shared<Exchange>(std::move(reading_->request), weak_from_this(), core_.weak_from_this());
  body_bytes_ = 0;  // the exchange counts them from here on
  reading_.reset();
  exchange_ = exchange;
  const Handler& handler = route_->handler;
  try {
    handler(std::move(exchange));
  } catch (const std::exception&) {
    // Memory, or a library's exception: this request's failure and nobody else's. The exchange was let go of, which
    // answers 500.
    core_.Log(LogLevel::kError, "a request's handler failed with an exception");
  }
}

void Connection::ReleaseBodyBytes(std::size_t bytes) { core_.body_bytes.fetch_sub(bytes); }

void Connection::CloseIfIdle() {
  if (state_ == State::kIdle) Close();
}

void Connection::Close() {
  if (state_ == State::kClosed) return;
  std::function<void()> gone;
  if (answer_ != Answer::kNone) {
    if (const auto exchange = exchange_.lock()) gone = exchange->TakeGone();
    EndAnswer(stream_status_ != 0 ? stream_status_ : kClientLeft, /*cut=*/true);
  }
  EnterState(State::kClosed);
  ReleaseBodyBytes(std::exchange(body_bytes_, 0));
  reading_.reset();
  std::string().swap(next_);
  std::string().swap(out_);
  std::string().swap(events_);
  out_begin_ = 0;
  boost::system::error_code ignored;
  socket_.close(ignored);
  // Not now: the core may be going through its list.
  core_.Post([self = shared_from_this()] { self->core_.Remove(self->place_); });
  exchange_.reset();
  if (gone) gone();
}

// A slow reader's socket takes more of ours only once a good part of what the kernel holds has gone, which may be a
// minute; but that part shrinks with everything that the client's side takes.
void Connection::NoteProgress(Time now) {
  const std::size_t held = transport_.HeldByKernel();
  if (held < held_) last_progress_ = now;
  held_ = held;
}

void Connection::Sweep(Time now) {
  const HttpLimits& limits = core_.limits();
  if (blocked_) NoteProgress(now);
  const auto in_state = now - since_;
  const bool stalled = blocked_ && now - last_progress_ > limits.stalled_time;
  switch (state_) {
    case State::kHandshake:
      if (in_state > limits.header_time) Close();
      return;
    case State::kIdle:
      if (in_state > limits.idle_time) Close();
      return;
    case State::kHead:
      if (in_state > limits.header_time) Refuse({408, "the request's headers took too long to arrive"});
      return;
    case State::kBody: {
      const std::size_t rate = std::max<std::size_t>(1, limits.body_rate);
      const auto by_rate = std::chrono::milliseconds(1000 * reading_->request.body.size() / rate);
      if (in_state > limits.body_time + by_rate) Refuse({408, "the request's body took too long to arrive"});
      return;
    }
    case State::kAnswering:
      if (stalled) return Close();
      // Whoever has sent much of a next request is not read from, and would leave unnoticed.
      if (answer_ != Answer::kNone && !WantsInput() && transport_.PeerLeft()) return Close();
      if (answer_ == Answer::kStreaming && unsent_bytes() == 0 && now - last_write_ > limits.ping_time) {
        Send(": ping\n\n");
      }
      return;
    case State::kDraining:
      if (stalled || in_state > limits.linger_time) Close();
      return;
    case State::kClosed: return;
  }
}

}  // namespace skein::server
