// SPDX-License-Identifier: Apache-2.0
#include "formats/remote_model.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "formats/model_wire.h"

namespace skein::formats {
namespace {

// What one request asks for, where a read may be cut. Large beside a round trip, small beside memory.
constexpr std::uint64_t kPieceBytes = 1u << 20;

Status Gone(const char* what) { return Status(Code::kUnavailable, fmt::format("the model's bytes do not come any more: {}", what)); }

// Fills `into`. The socket waits as long as it was told to.
Status Receive(int socket, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = ::recv(socket, into.data(), into.size(), MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) return Gone("the supervisor has closed the connection");
    if (got < 0) return Gone(errno == EAGAIN ? "the supervisor has become silent" : std::strerror(errno));
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return OkStatus();
}

Status Send(int socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return Gone(errno == EAGAIN ? "the supervisor takes no request" : std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return OkStatus();
}

Result<ModelHead> ReceiveHead(int socket) {
  std::vector<std::byte> frame(wire::kFrameHeaderBytes);
  SKEIN_RETURN_IF_ERROR(Receive(socket, frame));
  SKEIN_ASSIGN_OR_RETURN(const std::size_t bytes, HeadFrameBytes(frame));
  // Memory follows what has come, not what was announced.
  while (frame.size() < bytes) {
    const std::size_t have = frame.size();
    frame.resize(std::min<std::size_t>(bytes, have + kPieceBytes));
    SKEIN_RETURN_IF_ERROR(Receive(socket, std::span(frame).subspan(have)));
  }
  return DecodeHead(frame);
}

class RemoteModel final : public ModelFile {
 public:
  RemoteModel(Descriptor socket, ModelHead head) : socket_(std::move(socket)), identity_(std::move(head.identity)) {
    config_ = std::move(head.config);
    tensors_ = std::move(head.tensors);
    path_ = std::move(head.path);
  }

  std::string identity() const override { return identity_; }

  Status Read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> into) const override {
    SKEIN_CHECK(offset <= tensor.bytes && into.size() <= tensor.bytes - offset);
    std::vector<Piece> pieces;
    for (std::uint64_t done = 0; done < into.size(); done += kPieceBytes) {
      const std::uint64_t bytes = std::min<std::uint64_t>(kPieceBytes, into.size() - done);
      pieces.push_back({{NumberOf(tensor), 0, offset + done, 0, bytes}, into.subspan(done, bytes), std::nullopt});
    }
    return Named(tensor, Fetch(pieces));
  }

  Status ReadRows(const TensorInfo& tensor, std::uint64_t first_row, std::uint64_t begin, std::uint64_t end,
                  std::span<std::byte> into) const override {
    const std::optional<RowRuns> runs = RunsOf(tensor, begin, end);
    if (!runs || runs->bytes() == runs->row_bytes) return ModelFile::ReadRows(tensor, first_row, begin, end, into);
    const std::uint64_t rows = into.size() / runs->row_bytes, step = std::max<std::uint64_t>(1, kPieceBytes / runs->row_bytes);
    std::vector<Piece> pieces;
    for (std::uint64_t row = 0; row < rows; row += step) {
      const std::uint64_t count = std::min(step, rows - row);
      pieces.push_back({{NumberOf(tensor), static_cast<std::uint32_t>(count), first_row + row, begin, end},
                        into.subspan(row * runs->row_bytes, count * runs->row_bytes), runs});
    }
    return Named(tensor, Fetch(pieces));
  }

 private:
  struct Piece {
    PieceRequest request;
    std::span<std::byte> into;
    std::optional<RowRuns> runs;  // of rows of which a part comes
    std::uint64_t bytes() const { return runs ? request.rows * runs->bytes() : into.size(); }
  };

  std::uint32_t NumberOf(const TensorInfo& tensor) const {
    SKEIN_CHECK(&tensor >= tensors_.data() && &tensor < tensors_.data() + tensors_.size());
    return static_cast<std::uint32_t>(&tensor - tensors_.data());
  }
  static Status Named(const TensorInfo& tensor, const Status& status) {
    return status.ok() ? status : Status(status.code(), fmt::format("tensor {}: {}", tensor.file_name, status.message()), tensor.file_name);
  }

  // Asks for the pieces, waits for its turn and takes them.
  Status Fetch(const std::vector<Piece>& pieces) const {
    std::vector<std::byte> requests;
    for (const Piece& piece : pieces) {
      const std::vector<std::byte> frame = wire::Encode(kRequestFrame, piece.request);
      requests.insert(requests.end(), frame.begin(), frame.end());
    }
    std::unique_lock lock(mutex_);
    if (!status_.ok()) return status_;
    const std::uint64_t turn = asked_++;
    Status status = Send(socket_.get(), requests);
    changed_.wait(lock, [&] { return answered_ == turn; });
    if (status.ok()) status = status_;
    lock.unlock();
    Status said;  // what the owner of the file found: the connection goes on
    for (const Piece& piece : pieces) {
      if (status.ok()) status = Take(piece, said);
    }
    lock.lock();
    ++answered_;
    if (status_.ok()) status_ = status;
    changed_.notify_all();
    return status.ok() ? said : status;
  }

  Status Take(const Piece& piece, Status& said) const {
    std::array<std::byte, kReplyFrameBytes> frame;
    SKEIN_RETURN_IF_ERROR(Receive(socket_.get(), frame));
    SKEIN_ASSIGN_OR_RETURN(const PieceReply reply, wire::Decode<PieceReply>(kReplyFrame, frame));
    const bool good = reply.code == static_cast<std::uint8_t>(Code::kOk);
    if (good ? reply.bytes != piece.bytes() : reply.bytes > kMessageBytesMax) {
      return InvalidFile(fmt::format("{} bytes came for a request of {}", reply.bytes, piece.bytes()));
    }
    std::vector<std::byte> part(good && !piece.runs ? 0 : reply.bytes);
    const std::span<std::byte> into = good && !piece.runs ? piece.into : std::span(part);
    SKEIN_RETURN_IF_ERROR(Receive(socket_.get(), into));
    if (wire::Crc32c(into) != reply.checksum) return InvalidFile("bytes came with a wrong checksum");
    if (!good) {
      if (said.ok()) said = InvalidFile(std::string(reinterpret_cast<const char*>(part.data()), part.size()));
      return OkStatus();
    }
    const std::byte* from = part.data();
    for (std::uint32_t row = 0; piece.runs && row < piece.request.rows; ++row) {
      piece.runs->ForEach([&](std::uint64_t offset, std::uint64_t bytes) {
        std::memcpy(piece.into.data() + row * piece.runs->row_bytes + offset, from, bytes);
        from += bytes;
      });
    }
    return OkStatus();
  }

  const Descriptor socket_;
  const std::string identity_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // Under mutex_:
  mutable std::uint64_t asked_ = 0, answered_ = 0;  // reads; who has the turn also reads from the socket
  mutable Status status_;                           // why the connection is of no use
};

}  // namespace

Result<std::unique_ptr<ModelFile>> OpenRemoteModel(Descriptor connection, std::chrono::milliseconds patience) {
  ::fcntl(connection.get(), F_SETFL, ::fcntl(connection.get(), F_GETFL) & ~O_NONBLOCK);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
  const timeval time{seconds.count(), std::chrono::duration_cast<std::chrono::microseconds>(patience - seconds).count()};
  ::setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  ::setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  SKEIN_ASSIGN_OR_RETURN(ModelHead head, ReceiveHead(connection.get()));
  return std::unique_ptr<ModelFile>(new RemoteModel(std::move(connection), std::move(head)));
}

}  // namespace skein::formats
