// SPDX-License-Identifier: Apache-2.0
#include "formats/model_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "base/thread_without_signals.h"
#include "formats/model_wire.h"

namespace skein::formats {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLookEveryMs = 1000;
constexpr std::chrono::seconds kPatience{30};  // with an end that takes nothing

ModelHead HeadOf(const ModelFile& file) { return {file.config(), file.tensors(), file.path(), file.identity()}; }

void Append(std::vector<std::byte>& to, std::span<const std::byte> bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

// The bytes that `request` asks for. `rows` is memory for whole rows.
Status ReadPiece(const ModelFile& file, const TensorInfo& tensor, const PieceRequest& request, std::vector<std::byte>& rows,
                 std::vector<std::byte>& piece) {
  piece.clear();
  if (request.rows == 0) {
    piece.resize(request.end);
    return file.Read(tensor, request.first, piece);
  }
  const RowRuns runs = *RunsOf(tensor, request.begin, request.end);
  rows.resize(request.rows * runs.row_bytes);
  SKEIN_RETURN_IF_ERROR(file.Read(tensor, request.first * runs.row_bytes, rows));
  piece.reserve(request.rows * runs.bytes());
  for (std::uint64_t row = 0; row < request.rows; ++row) {
    const std::span<const std::byte> whole = std::span<const std::byte>(rows).subspan(row * runs.row_bytes, runs.row_bytes);
    runs.ForEach([&](std::uint64_t offset, std::uint64_t bytes) { Append(piece, whole.subspan(offset, bytes)); });
  }
  return OkStatus();
}

}  // namespace

// One process that is served. It is sent the head, then an answer to each request.
class ModelServer::Connection {
 public:
  Connection(Descriptor socket, std::vector<std::byte> head) : socket_(std::move(socket)), out_(std::move(head)), moved_(Clock::now()) {
    ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
  }

  pollfd Watched() const { return {socket_.get(), static_cast<short>(sending() ? POLLOUT : POLLIN), 0}; }
  // Whether it is stuck with an answer.
  bool Stuck() const { return sending() && Clock::now() - moved_ > kPatience; }
  // Takes in a request, or sends what goes. False: it is over.
  bool Move(const ModelFile& file, std::vector<std::byte>& rows, std::vector<std::byte>& piece) {
    moved_ = Clock::now();
    if (sending()) return Send();
    const ssize_t got = ::recv(socket_.get(), in_.data() + have_, in_.size() - have_, 0);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    have_ += static_cast<std::size_t>(got);
    if (have_ < in_.size()) return true;
    have_ = 0;
    return Answer(file, rows, piece) && Send();
  }

 private:
  bool sending() const { return sent_ < out_.size(); }

  bool Send() {
    const ssize_t sent = ::send(socket_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    sent_ += static_cast<std::size_t>(sent);
    return true;
  }

  bool Answer(const ModelFile& file, std::vector<std::byte>& rows, std::vector<std::byte>& piece) {
    const Result<PieceRequest> request = wire::Decode<PieceRequest>(kRequestFrame, in_);
    if (!request.ok() || request->tensor >= file.tensors().size()) return false;
    const TensorInfo& tensor = file.tensors()[request->tensor];
    if (!CheckRequest(tensor, *request).ok()) return false;
    const Status read = ReadPiece(file, tensor, *request, rows, piece);
    if (!read.ok()) {
      const std::span<const std::byte> message = std::as_bytes(std::span(read.message()));
      piece.assign(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(std::min(message.size(), kMessageBytesMax)));
    }
    out_ = wire::Encode(kReplyFrame, PieceReply{static_cast<std::uint8_t>(read.code()), piece.size(), wire::Crc32c(piece)});
    Append(out_, piece);
    sent_ = 0;
    return true;
  }

  Descriptor socket_;
  std::array<std::byte, kRequestFrameBytes> in_;
  std::size_t have_ = 0;
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;
  Clock::time_point moved_;
};

ModelServer::ModelServer(const ModelFile& file, WakeEvent wake) : file_(file), head_(EncodeHead(HeadOf(file))), wake_(std::move(wake)) {}

Result<std::unique_ptr<ModelServer>> ModelServer::Create(const ModelFile& file) {
  SKEIN_ASSIGN_OR_RETURN(WakeEvent wake, WakeEvent::Create());
  std::unique_ptr<ModelServer> server(new ModelServer(file, std::move(wake)));
  server->thread_ = ThreadWithoutSignals([raw = server.get()] { raw->Loop(); });
  return server;
}

ModelServer::~ModelServer() {
  stopping_.store(true);
  wake_.Set();
  if (thread_.joinable()) thread_.join();
}

void ModelServer::Add(Descriptor connection) {
  {
    const std::lock_guard lock(mutex_);
    arrived_.push_back(std::move(connection));
  }
  wake_.Set();
}

void ModelServer::Loop() {
  std::vector<std::unique_ptr<Connection>> connections;
  std::vector<std::byte> rows, piece;
  while (!stopping_.load()) {
    std::vector<pollfd> watched{{wake_.descriptor(), POLLIN, 0}};
    for (const auto& connection : connections) watched.push_back(connection->Watched());
    ::poll(watched.data(), watched.size(), kLookEveryMs);
    if (watched.front().revents != 0) wake_.Clear();
    for (std::size_t i = 0; i < connections.size(); ++i) {
      const bool moves = watched[i + 1].revents != 0;
      if (moves ? !connections[i]->Move(file_, rows, piece) : connections[i]->Stuck()) connections[i] = nullptr;
      if (moves) bytes_sent_.fetch_add(std::exchange(piece, {}).size(), std::memory_order_relaxed);
    }
    std::erase(connections, nullptr);
    if (connections.empty()) rows = {};
    const std::lock_guard lock(mutex_);
    for (Descriptor& socket : arrived_) connections.push_back(std::make_unique<Connection>(std::move(socket), head_));
    arrived_.clear();
  }
}

}  // namespace skein::formats
