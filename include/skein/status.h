// SPDX-License-Identifier: Apache-2.0
//
// Status and Result<T>: how everything that the world can get wrong is reported, in the library's public interface and
// inside. A Status is a code, a message that says what was expected, what was found and what to do, and the name of the
// field that is at fault (a file's key, a flag, a request's field). Values, cheap when ok; nothing throws.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace skein {

// Prints a broken fact and its place, and aborts: for what only a program's author can get wrong.
[[noreturn]] void CheckFailed(const char* file, int line, const char* fact);

// A small canonical set; exit codes of the program and HTTP statuses are looked up from it.
enum class Code {
  kOk,
  kInvalidArgument,   // wrong usage: a flag, a request's field (exit 2, HTTP 400)
  kMissing,           // something this machine lacks: a tool, a permission (exit 3)
  kInvalidFile,       // a file is not valid (exit 4)
  kUnavailable,       // a peer or server cannot be reached (exit 5, HTTP 503)
  kLimit,             // refused: limits, memory, an infeasible plan (exit 6, HTTP 400 or 429)
  kCancelled,         // interrupted by whoever asked (exit 130)
  kInternal,          // a failure nobody foresaw (exit 1, HTTP 500)
};

// "invalid_file" and so on: the `code` of --json errors.
std::string_view CodeName(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(Code code, std::string message, std::string field = "")
      : code_(code), message_(std::move(message)), field_(std::move(field)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& field() const { return field_; }

  // The same error with `prefix: ` in front of its message, for a caller that knows more (a file's name).
  Status WithContext(std::string_view prefix) const;

 private:
  Code code_ = Code::kOk;
  std::string message_;
  std::string field_;
};

inline Status OkStatus() { return Status(); }
inline Status InvalidArgument(std::string message, std::string field = "") {
  return Status(Code::kInvalidArgument, std::move(message), std::move(field));
}
inline Status InvalidFile(std::string message, std::string field = "") {
  return Status(Code::kInvalidFile, std::move(message), std::move(field));
}
inline Status LimitExceeded(std::string message, std::string field = "") {
  return Status(Code::kLimit, std::move(message), std::move(field));
}
inline Status MissingError(std::string message, std::string field = "") {
  return Status(Code::kMissing, std::move(message), std::move(field));
}
inline Status InternalError(std::string message, std::string field = "") {
  return Status(Code::kInternal, std::move(message), std::move(field));
}

// A value or the Status that says why there is none. Never holds an ok Status.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit on purpose, `return value;`
  Result(Status status) : status_(std::move(status)) {  // NOLINT: `return error;`
    if (status_.ok()) CheckFailed(__FILE__, __LINE__, "an error is not ok");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // Requires: ok().
  T& value() & {
    RequireValue();
    return *value_;
  }
  const T& value() const& {
    RequireValue();
    return *value_;
  }
  T&& value() && {
    RequireValue();
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void RequireValue() const {
    if (!value_.has_value()) CheckFailed(__FILE__, __LINE__, "a Result is asked for its value only when ok");
  }

  std::optional<T> value_;
  Status status_;
};

}  // namespace skein
