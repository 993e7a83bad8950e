// SPDX-License-Identifier: Apache-2.0
#include "engine/frame_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/wire.h"

namespace skein::engine {
namespace {

constexpr std::size_t kReadBytes = 64u << 10;
constexpr int kReadsAtOnce = 4;
constexpr std::size_t kFrameTailBytes = sizeof(std::uint32_t);
constexpr std::size_t kFramesAtOnce = 64;

Status Lost(int error) {
  return Status(Code::kUnavailable, fmt::format("the connection failed: {}", std::strerror(error)));
}

struct Header {
  wire::FrameKind kind;
  std::uint64_t length = 0;
};

Header ReadHeader(std::span<const std::byte> bytes) {
  Header header;
  wire::Reader reader(bytes.first(wire::kFrameHeaderBytes));
  reader(header.kind.magic, header.kind.version, header.kind.kind, header.length);
  return header;
}

}  // namespace

FrameStream::FrameStream(Descriptor socket, FrameStreamOptions options) : socket_(std::move(socket)), options_(options) {
  ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
}

Status FrameStream::Read() {
  // What is used up goes before more comes.
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(std::exchange(in_begin_, 0)));
  for (int i = 0; i < kReadsAtOnce; ++i) {
    const std::size_t before = in_.size();
    in_.resize(before + kReadBytes);
    const ssize_t got = ::recv(socket_.get(), in_.data() + before, kReadBytes, 0);
    const int error = errno;
    in_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return Status(Code::kUnavailable, "the other end has closed the connection");
    if (got < 0) return error == EAGAIN || error == EINTR ? OkStatus() : Lost(error);
    if (static_cast<std::size_t>(got) < kReadBytes) break;
  }
  return OkStatus();
}

Result<std::span<const std::byte>> FrameStream::Next() {
  const std::span<const std::byte> rest = std::span<const std::byte>(in_).subspan(in_begin_);
  if (rest.size() < wire::kFrameHeaderBytes) return std::span<const std::byte>();
  const Header header = ReadHeader(rest);
  if (header.kind.magic != options_.magic) return InvalidFile("what came does not begin as a message does");
  if (header.kind.version != options_.version) {
    return InvalidFile(fmt::format("a message of version {}, expected version {}: both ends must be of one build",
                                   header.kind.version, options_.version));
  }
  if (header.length > options_.frame_bytes_max) {
    return InvalidFile(fmt::format("a message says it has {} bytes, at most {} are taken", header.length, options_.frame_bytes_max));
  }
  const std::size_t whole = wire::kFrameHeaderBytes + static_cast<std::size_t>(header.length) + kFrameTailBytes;
  if (rest.size() < whole) return std::span<const std::byte>();
  in_begin_ += whole;
  return rest.first(whole);
}

void FrameStream::Put(std::vector<std::byte> frame) {
  unsent_ += frame.size();
  out_.push_back(std::move(frame));
}

Status FrameStream::Write() {
  while (!out_.empty()) {
    std::array<iovec, kFramesAtOnce> parts;
    std::size_t count = 0;
    std::size_t offered = 0;
    for (auto frame = out_.begin(); frame != out_.end() && count < parts.size(); ++frame, ++count) {
      const std::size_t skip = count == 0 ? out_begin_ : 0;
      parts[count] = {frame->data() + skip, frame->size() - skip};
      offered += frame->size() - skip;
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN ? OkStatus() : Lost(errno);
    }
    unsent_ -= static_cast<std::size_t>(sent);
    out_begin_ += static_cast<std::size_t>(sent);
    while (!out_.empty() && out_begin_ >= out_.front().size()) {
      out_begin_ -= out_.front().size();
      out_.pop_front();
    }
    if (static_cast<std::size_t>(sent) < offered) return OkStatus();
  }
  return OkStatus();
}

}  // namespace skein::engine
