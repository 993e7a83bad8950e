// SPDX-License-Identifier: Apache-2.0
#include "base/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace skein {
namespace {

constexpr std::size_t kBufferBytes = 1 << 16;

std::string Reason(int error) {
  char text[128];
  return strerror_r(error, text, sizeof(text));
}

// The name of the file until Commit gives it its own.
std::string TemporaryName(const std::string& path) { return fmt::format("{}.part-{}", path, ::getpid()); }

// A file without a name in the folder of `path`, or -1 where there are none (or no /proc, which names them).
int OpenNameless(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  if (::access("/proc/self/fd", X_OK) != 0) return -1;
  return ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
}

}  // namespace

Status WriteAll(int descriptor, std::span<const std::byte> bytes, std::string_view shown_path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE) return Status(Code::kCancelled, "the reader of the output has left");
    if (written <= 0) {
      return MissingError(fmt::format("{} cannot be written: {}; free some space or choose another place", shown_path,
                                      Reason(written == 0 ? ENOSPC : errno)));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return OkStatus();
}

Result<OutputFile> OutputFile::Create(const std::string& path) {
  OutputFile file;
  file.path_ = path;
  struct stat found {};
  const bool exists = ::stat(path.c_str(), &found) == 0;
  if (exists && !S_ISREG(found.st_mode)) {
    file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else if (file.descriptor_ = OpenNameless(path); file.descriptor_ >= 0) {
    file.nameless_ = true;
  } else {
    file.temporary_ = TemporaryName(path);
    file.descriptor_ = ::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  }
  if (file.descriptor_ < 0) {
    file.temporary_.clear();
    return InvalidArgument(fmt::format("{} cannot be written: {}", path, Reason(errno)));
  }
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, std::string())),
      nameless_(std::exchange(other.nameless_, false)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      buffer_(std::move(other.buffer_)) {}

OutputFile::~OutputFile() { Discard(); }

void OutputFile::Discard() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

Status OutputFile::Flush() {
  const Status status = WriteAll(descriptor_, std::as_bytes(std::span(buffer_.data(), buffer_.size())), path_);
  buffer_.clear();
  return status;
}

Status OutputFile::Write(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) {
    SKEIN_RETURN_IF_ERROR(Flush());
    if (bytes.size() > kBufferBytes) return WriteAll(descriptor_, bytes, path_);
  }
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return OkStatus();
}

// A nameless file cannot take the place of a file that is there, so it gets a temporary name first.
Status OutputFile::Name() {
  const std::string name = TemporaryName(path_), self = fmt::format("/proc/self/fd/{}", descriptor_);
  static_cast<void>(::unlink(name.c_str()));
  if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return MissingError(fmt::format("{} cannot be written: {}", path_, Reason(errno)));
  }
  temporary_ = name;
  return OkStatus();
}

Status OutputFile::Commit() {
  SKEIN_RETURN_IF_ERROR(Flush());
  if (nameless_) SKEIN_RETURN_IF_ERROR(Name());
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) return MissingError(fmt::format("{} cannot be written: {}", path_, Reason(errno)));
  if (temporary_.empty()) return OkStatus();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return MissingError(fmt::format("{} cannot be written: {}", path_, Reason(errno)));
  }
  temporary_.clear();
  return OkStatus();
}

}  // namespace skein
