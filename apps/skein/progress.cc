// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/output_file.h"

namespace skein::app {
namespace {

constexpr std::chrono::milliseconds kRedraw{80};

void WriteError(std::string_view text) {
  static_cast<void>(WriteAll(STDERR_FILENO, std::as_bytes(std::span(text.data(), text.size())), "standard error").ok());
}

}  // namespace

ProgressBar::ProgressBar(const Context& context, std::string label)
    : label_(std::move(label)), visible_(context.shows_progress()), columns_(context.columns()) {}

ProgressBar::~ProgressBar() {
  if (drawn_) WriteError("\r\x1b[K");
}

void ProgressBar::Show(std::uint64_t done, std::uint64_t total) {
  if (!visible_ || total == 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - last_ < kRedraw) return;
  last_ = now;
  drawn_ = true;
  const double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const int width = std::clamp(columns_ - static_cast<int>(label_.size()) - 12, 5, 40);
  const int filled = static_cast<int>(part * width);
  std::string bar;
  for (int i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
  WriteError(fmt::format("\r{} {} {:3.0f} %\x1b[K", label_, bar, 100 * part));
}

}  // namespace skein::app
