// SPDX-License-Identifier: Apache-2.0
#include "context.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/output_file.h"

namespace skein::app {
namespace {

constexpr std::size_t kBufferBytes = 1 << 16;

Result<std::size_t> ReadSome(int descriptor, std::span<char> block, std::string_view shown) {
  while (true) {
    const ssize_t count = ::read(descriptor, block.data(), block.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) return InvalidArgument(fmt::format("{} cannot be read: {}", shown, std::strerror(errno)));
  }
}

Result<std::string> ReadDescriptor(int descriptor, std::string_view shown, std::uint64_t limit) {
  std::string text;
  std::string block(kBufferBytes, '\0');
  while (true) {
    SKEIN_ASSIGN_OR_RETURN(const std::size_t count, ReadSome(descriptor, block, shown));
    if (count == 0) return text;
    text.append(block, 0, count);
    if (text.size() > limit) return LimitExceeded(fmt::format("{} holds more than {} bytes", shown, limit));
  }
}

}  // namespace

Status Output::Write(std::string_view text) {
  used_ = used_ || !text.empty();
  buffer_ += text;
  return buffer_.size() < kBufferBytes ? failed_ : Flush();
}

Status Output::Flush() {
  if (failed_.ok() && !buffer_.empty()) {
    failed_ = WriteAll(STDOUT_FILENO, std::as_bytes(std::span(buffer_.data(), buffer_.size())), "standard output");
  }
  buffer_.clear();
  return failed_;
}

Context::Context() : log_(STDERR_FILENO, LogLevel::kWarning, /*json=*/false) {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool plain = (no_colour != nullptr && *no_colour != '\0') ||
                     (terminal != nullptr && std::string_view(terminal) == "dumb");
  colours_ = !plain && ::isatty(STDOUT_FILENO) == 1;
  error_is_terminal_ = ::isatty(STDERR_FILENO) == 1;
}

void Context::Prepare(const OutputOptions& options) {
  json_ = options.json;
  quiet_ = options.quiet;
  const LogLevel level = quiet_ ? LogLevel::kError : LogLevelFromName(options.log_level).value_or(LogLevel::kWarning);
  log_ = Logger(STDERR_FILENO, level, options.log_format == "json");
}

int Context::columns() const {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? std::clamp<int>(size.ws_col, 20, 200) : 80;
}

void Context::Tell(std::string_view line) const {
  if (quiet_) return;
  log_.WriteLine(std::string(line));
}

Result<std::size_t> ReadSomeStandardInput(std::span<char> block) {
  return ReadSome(STDIN_FILENO, block, "standard input");
}

Result<std::string> ReadStandardInput(std::uint64_t limit) {
  return ReadDescriptor(STDIN_FILENO, "standard input", limit);
}

Result<std::string> ReadTextFile(const std::string& path, std::string_view flag, std::uint64_t limit) {
  if (path == "-") return ReadStandardInput(limit);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return InvalidArgument(fmt::format("{} takes a file that can be read, found {}: {}", flag, path,
                                       std::strerror(errno)),
                           std::string(flag));
  }
  Result<std::string> text = ReadDescriptor(descriptor, path, limit);
  ::close(descriptor);
  return text;
}

}  // namespace skein::app
