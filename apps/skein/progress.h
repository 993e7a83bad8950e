// SPDX-License-Identifier: Apache-2.0
//
// ProgressBar draws one line on standard error that grows, and takes it away when it goes. Draws nothing when
// standard error is no terminal, or with --quiet.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "context.h"

namespace skein::app {

class ProgressBar {
 public:
  ProgressBar(const Context& context, std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Show(std::uint64_t done, std::uint64_t total);

 private:
  std::string label_;
  bool visible_;
  int columns_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace skein::app
