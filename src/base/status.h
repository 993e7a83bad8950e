// SPDX-License-Identifier: Apache-2.0
//
// Status and Result<T> as all modules use them. The types are part of the public interface (skein/status.h); here are
// the two macros that pass an error up.
#pragma once

#include "base/check.h"
#include "../../include/skein/status.h"

// Returns from the enclosing function when `expression` (a Status) is an error.
#define SKEIN_RETURN_IF_ERROR(expression)                     \
  do {                                                        \
    if (::skein::Status skein_status_ = (expression); !skein_status_.ok()) return skein_status_; \
  } while (false)

// SKEIN_ASSIGN_OR_RETURN(auto file, OpenFile(path)): declares or assigns, or returns the error.
#define SKEIN_ASSIGN_OR_RETURN(target, expression) \
  SKEIN_ASSIGN_OR_RETURN_(SKEIN_CONCAT_(skein_result_, __LINE__), target, expression)
#define SKEIN_ASSIGN_OR_RETURN_(result, target, expression) \
  auto result = (expression);                               \
  if (!result.ok()) return result.status();                 \
  target = std::move(result).value()
#define SKEIN_CONCAT_(a, b) SKEIN_CONCAT_INNER_(a, b)
#define SKEIN_CONCAT_INNER_(a, b) a##b
