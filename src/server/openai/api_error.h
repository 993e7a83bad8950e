// SPDX-License-Identifier: Apache-2.0
//
// ApiError is a refusal as OpenAI's clients know it: an HTTP status, a message, and the names of the field and of the
// kind of mistake. ApiResult<T> is a value or such a refusal. Where Status speaks of the program, these speak to a
// client; a Status becomes one with ApiErrorOf.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/status.h"

namespace skein::server {

struct ApiError {
  int status = 400;     // HTTP
  std::string message;  // what was expected, what was found, what to do
  std::string param;    // the request's field; empty: none in particular
  std::string code;     // "context_length_exceeded", "model_not_found"; empty: none
};

// A refusal of one field with 400.
ApiError BadField(std::string_view field, std::string message);
// 400 for what a client can cause (kInvalidArgument, kLimit), 503 for kUnavailable, 500 for all else.
ApiError ApiErrorOf(const Status& status);

template <typename T>
class [[nodiscard]] ApiResult {
 public:
  ApiResult(T value) : held_(std::move(value)) {}         // NOLINT: implicit on purpose, `return value;`
  ApiResult(ApiError error) : held_(std::move(error)) {}  // NOLINT: `return error;`

  bool ok() const { return std::holds_alternative<T>(held_); }
  // Requires: !ok().
  const ApiError& error() const { return Held<ApiError>(held_); }
  // Requires: ok().
  T& value() & { return Held<T>(held_); }
  const T& value() const& { return Held<T>(held_); }
  T&& value() && { return std::move(Held<T>(held_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  template <typename U, typename Variant>
  static auto& Held(Variant& held) {
    auto* found = std::get_if<U>(&held);
    SKEIN_CHECK(found != nullptr);
    return *found;
  }
  std::variant<T, ApiError> held_;
};

}  // namespace skein::server

// SKEIN_API_ASSIGN_OR_RETURN(auto value, Parse(…)): declares or assigns, or returns the ApiError.
#define SKEIN_API_ASSIGN_OR_RETURN(target, expression) \
  SKEIN_API_ASSIGN_OR_RETURN_(SKEIN_CONCAT_(skein_api_result_, __LINE__), target, expression)
#define SKEIN_API_ASSIGN_OR_RETURN_(result, target, expression) \
  auto result = (expression);                                   \
  if (!result.ok()) return result.error();                      \
  target = std::move(result).value()
