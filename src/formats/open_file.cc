// SPDX-License-Identifier: Apache-2.0
#include "formats/open_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace skein::formats {
namespace {

Status Unreadable(const std::string& path, int error) {
  const std::string shown = ShownPath(path);
  if (error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG || error == ELOOP) {
    return InvalidArgument(fmt::format("nothing found at {}: {}", shown, std::strerror(error)), "model");
  }
  return MissingError(fmt::format("{} cannot be read: {}", shown, std::strerror(error)), "model");
}

}  // namespace

Result<PathKind> KindOf(const std::string& path) {
  struct stat found;
  if (path.empty() || path.find('\0') != std::string::npos) return PathKind::kNothing;
  if (::stat(path.c_str(), &found) != 0) {
    if (errno == EACCES || errno == EIO) return Unreadable(path, errno);
    return PathKind::kNothing;
  }
  if (S_ISREG(found.st_mode)) return PathKind::kFile;
  if (S_ISDIR(found.st_mode)) return PathKind::kFolder;
  return PathKind::kOther;
}

std::string ShownPath(std::string_view path) {
  constexpr std::size_t kLongest = 400;
  if (path.empty()) return "\"\"";
  std::string shown;
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      shown += c;
    }
  }
  if (shown.size() > kLongest) shown = shown.substr(0, kLongest / 2) + "…" + shown.substr(shown.size() - kLongest / 2);
  return shown;
}

Result<OpenFile> OpenFile::Open(const std::string& path) {
  SKEIN_ASSIGN_OR_RETURN(const PathKind kind, KindOf(path));
  if (kind == PathKind::kNothing) return Unreadable(path, ENOENT);
  if (kind != PathKind::kFile) {
    return InvalidFile(fmt::format("{} is no regular file", ShownPath(path)), "model");
  }
  OpenFile file;
  // The file could have become a pipe since: O_NONBLOCK keeps the open from waiting for its writer.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file.descriptor_ < 0) return Unreadable(path, errno);
  struct stat found;
  if (::fstat(file.descriptor_, &found) != 0) return Unreadable(path, errno);
  if (!S_ISREG(found.st_mode)) return InvalidFile(fmt::format("{} is no regular file", ShownPath(path)), "model");
  file.size_ = static_cast<std::uint64_t>(found.st_size);
  return file;
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), size_(std::exchange(other.size_, 0)) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int OpenFile::Release() { return std::exchange(descriptor_, -1); }

Status ReadAt(int descriptor, std::uint64_t offset, std::span<std::byte> into) {
  constexpr std::size_t kPiece = std::size_t{1} << 30;
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t count = ::pread(descriptor, into.data() + done, std::min(into.size() - done, kPiece),
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      return InvalidFile(fmt::format("reading at byte {} failed: {}", offset + done, std::strerror(errno)));
    if (count == 0) {
      return InvalidFile(fmt::format("the file ends at byte {}, expected {} bytes from {} on; it was cut or has shrunk",
                                     offset + done, into.size(), offset));
    }
    done += static_cast<std::size_t>(count);
  }
  return OkStatus();
}

Result<std::string> ReadWhole(const std::string& path, std::uint64_t limit) {
  SKEIN_ASSIGN_OR_RETURN(const OpenFile file, OpenFile::Open(path));
  if (file.size() > limit) {
    return InvalidFile(fmt::format("{} has {} bytes, at most {} are expected", ShownPath(path), file.size(), limit));
  }
  std::string bytes(file.size(), '\0');
  if (Status read = ReadAt(file.descriptor(), 0, std::as_writable_bytes(std::span(bytes))); !read.ok()) {
    return read.WithContext(ShownPath(path));
  }
  return bytes;
}

}  // namespace skein::formats
