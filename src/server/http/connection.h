// SPDX-License-Identifier: Apache-2.0
//
// Connection is one client's socket: it reads requests one after the other and writes their answers in order. While an
// answer is made it keeps reading, to see the client leave and to keep (a little of) the next request.
//
//     handshake → idle → head → body → answering → idle …
//                           any of them → draining (our last answer is out, the client may still send) → closed
//
// Idle it holds no buffers. Invariants: (1) bytes of the next request wait in next_ only while answering; (2) the
// answer of the current request has been taken by the kernel before the next one is read.
//
// Thread rule: the I/O thread. Owned by HttpCore's list and by what waits for its socket.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/ip/tcp.hpp>

#include "server/http/chunk_parser.h"
#include "server/http/exchange.h"
#include "server/http/framing.h"
#include "server/http/gate.h"
#include "server/http/head_parser.h"
#include "server/http/http_core.h"
#include "server/http/transport.h"

namespace skein::server {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Connection(HttpCore& core, boost::asio::ip::tcp::socket socket, std::string peer);
  void Start(SSL_CTX* tls, ConnectionList::iterator place);

  // For the core.
  void Sweep(Time now);  // ends what has taken too long
  void Flush();          // writes what has gathered
  void CloseIfIdle();
  void Close();  // at once; an open answer's owner hears of it
  bool idle() const { return state_ == State::kIdle; }
  bool answering() const { return state_ == State::kAnswering; }  // until the kernel has all of it
  bool reading_head() const { return state_ == State::kHead || state_ == State::kHandshake; }
  Time since() const { return since_; }

  // For the exchange of the current request.
  void Respond(HttpResponse response);
  void BeginEvents(std::vector<HttpHeader> headers);
  void Send(std::string_view bytes);
  void EndEvents();
  void Fail();
  void ExchangeDropped();
  std::size_t unsent_bytes() const { return out_.size() - out_begin_ + events_.size(); }

 private:
  enum class State { kHandshake, kIdle, kHead, kBody, kAnswering, kDraining, kClosed };
  // How far the current answer is. kNone: there is none, or its owner has ended it.
  enum class Answer { kNone, kWaiting, kStreaming };

  // What a request needs while it is read, and its answer until its end.
  struct Reading {
    explicit Reading(const HttpLimits& limits) : head_parser(limits), chunk_parser(limits) {}
    HeadParser head_parser;
    ChunkParser chunk_parser;
    Framing framing;
    HttpRequest request;
    const Route* route = nullptr;
  };

  // connection.cc: bytes in.
  void WaitReadable();
  void OnReadable();
  void OnEndOfInput();
  bool WantsInput() const;
  bool Handshake();
  void Process(std::string_view bytes);
  std::size_t TakeHead(std::string_view bytes);
  std::size_t TakeBody(std::string_view bytes);
  void OnHead(bool more_is_here);
  void FillRequest(RequestHead head, std::string path, std::string query, Admission admission);
  void Dispatch();
  void EnterState(State state);
  void ReleaseBodyBytes(std::size_t bytes);
  void NoteProgress(Time now);

  // connection_answer.cc: bytes out.
  void WaitWritable();
  void AppendHead(int status, std::string_view content_type, const std::vector<HttpHeader>& headers,
                  std::string_view framing);
  void WriteAnswer(HttpResponse response);
  void Refuse(Refusal refusal);
  void TurnAway(HttpResponse response, bool close);
  void QueueFlush();
  void FrameEvents();
  void EndAnswer(int status, bool cut = false);
  void Note(const Exchange* exchange, int status, bool cut) const;
  void OnAllSent();
  void BeginDrain();

  HttpCore& core_;
  boost::asio::ip::tcp::socket socket_;
  Transport transport_;
  std::string peer_;
  ConnectionList::iterator place_;
  State state_ = State::kIdle;
  Answer answer_ = Answer::kNone;
  Time since_;          // of this state
  Time began_;          // of this request: its first byte
  Time last_progress_;  // the kernel or the client took bytes, or out_ began to wait for the kernel
  Time last_write_;

  std::unique_ptr<Reading> reading_;
  std::size_t body_bytes_ = 0;  // counted in the core for a body that is being read
  std::string next_;            // bytes of the next request
  std::string out_;             // answer bytes; those before out_begin_ have been taken by the kernel
  std::size_t out_begin_ = 0;
  std::size_t held_ = 0;     // by the kernel for the client, when it was last looked at
  std::string events_;       // of this turn, not framed yet
  std::size_t drained_ = 0;  // bytes thrown away while draining
  std::weak_ptr<Exchange> exchange_;
  std::string request_id_;  // of the current request
  const Route* route_ = nullptr;
  int stream_status_ = 0;

  bool processing_ = false;
  bool waiting_readable_ = false, waiting_writable_ = false;
  bool flush_queued_ = false;
  bool blocked_ = false;      // the kernel takes no more of out_ for now
  bool close_after_ = false;  // this answer is the connection's last
  bool input_ended_ = false;  // the client closed its half
  bool is_head_request_ = false;
  bool is_http10_ = false;
  bool was_slow_ = false;  // unsent bytes have been above kUnsentMax
};

}  // namespace skein::server
