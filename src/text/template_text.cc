// SPDX-License-Identifier: Apache-2.0
//
// Text, its builder and UTF-8 walking; see template_text.h.
#include "text/template_text.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

namespace skein::text::templates {
namespace {

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u; }

std::size_t LengthFromLead(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 1;
}

}  // namespace

bool Text::AllTrusted() const {
  if (bytes_.empty()) return true;
  if (runs_.empty()) return trusted_;
  return false;  // Two runs differ, so one of them is untrusted.
}

bool Text::TrustedAt(std::size_t byte) const {
  if (runs_.empty()) return trusted_;
  const auto run = std::upper_bound(runs_.begin(), runs_.end(), byte,
                                    [](std::size_t at, const Run& r) { return at < r.end; });
  return run == runs_.end() ? runs_.back().trusted : run->trusted;
}

std::size_t Text::RunEnd(std::size_t begin, std::size_t end) const {
  if (runs_.empty()) return end;
  const auto run = std::upper_bound(runs_.begin(), runs_.end(), begin,
                                    [](std::size_t at, const Run& r) { return at < r.end; });
  return run == runs_.end() ? end : std::min(end, run->end);
}

void TextBuilder::Append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  const std::size_t limit = meter_->budgets().output_bytes;
  if (bytes.size() > limit || size() > limit - bytes.size()) {
    meter_->Limit(fmt::format("template builds a text of more than {} bytes", limit));
    return;
  }
  const std::size_t before = size();
  text_.bytes_.append(bytes);
  if (before == 0) {
    text_.trusted_ = trusted;
    return;
  }
  if (text_.runs_.empty()) {
    if (text_.trusted_ == trusted) return;
    text_.runs_.push_back({before, text_.trusted_});
    text_.runs_.push_back({size(), trusted});
  } else if (text_.runs_.back().trusted == trusted) {
    text_.runs_.back().end = size();
  } else {
    text_.runs_.push_back({size(), trusted});
  }
}

void TextBuilder::Append(const Text& text, std::size_t begin, std::size_t end) {
  if (text.runs_.empty()) return Append(text.view().substr(begin, end - begin), text.trusted_);
  auto run = std::upper_bound(text.runs_.begin(), text.runs_.end(), begin,
                              [](std::size_t at, const Text::Run& r) { return at < r.end; });
  for (; begin < end; ++run) {
    const std::size_t run_end = std::min(end, run->end);
    Append(text.view().substr(begin, run_end - begin), run->trusted);
    begin = run_end;
  }
}

void TextBuilder::Append(const Text& text) {
  if (size() != 0 || text.size() > meter_->budgets().output_bytes) return Append(text, 0, text.size());
  text_.bytes_.append(text.bytes_);  // keeps what was reserved
  text_.trusted_ = text.trusted_;
  text_.runs_ = text.runs_;
}

void TextBuilder::Reserve(std::size_t bytes) {
  if (bytes <= meter_->budgets().output_bytes && meter_->Reserve(bytes)) text_.bytes_.reserve(bytes);
}

void TextBuilder::AppendRepeated(const Text& text, std::uint64_t count) {
  if (text.empty() || count == 0) return;
  const std::size_t limit = meter_->budgets().output_bytes;
  if (count > limit / text.size()) {
    meter_->Limit(fmt::format("template builds a text of more than {} bytes", limit));
    return;
  }
  for (std::uint64_t i = 0; i < count && meter_->Work(text.size()); ++i) Append(text);
}

Text TextBuilder::Take() {
  meter_->Work(size());
  Text taken = std::move(text_);
  text_ = Text();
  return taken;
}

std::size_t CharLength(std::string_view bytes, std::size_t at) {
  const std::size_t length = LengthFromLead(static_cast<unsigned char>(bytes[at]));
  if (length > bytes.size() - at) return 1;
  for (std::size_t i = 1; i < length; ++i) {
    if (!IsContinuation(bytes[at + i])) return 1;
  }
  return length;
}

char32_t CharAt(std::string_view bytes, std::size_t at, std::size_t* length) {
  *length = CharLength(bytes, at);
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(bytes[at + i])); };
  switch (*length) {
    case 1: return byte(0) < 0x80 ? byte(0) : 0xFFFD;
    case 2: return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3: return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    default: return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  }
}

std::size_t CountChars(std::string_view bytes) {
  // Counts the bytes that do not continue a character, eight at a time: bit 7 set and bit 6 clear continue one.
  std::size_t continuing = 0;
  std::size_t at = 0;
  for (; at + sizeof(std::uint64_t) <= bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    continuing += static_cast<std::size_t>(std::popcount(word >> 7 & ~word >> 6 & 0x0101010101010101u));
  }
  for (; at < bytes.size(); ++at) continuing += IsContinuation(bytes[at]) ? 1 : 0;
  return bytes.size() - continuing;
}

void AppendUtf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::size_t PreviousChar(std::string_view bytes, std::size_t at) {
  std::size_t begin = at - 1;
  while (begin > 0 && at - begin < 4 && IsContinuation(bytes[begin])) --begin;
  return begin + CharLength(bytes, begin) == at ? begin : at - 1;
}

std::string ToValidUtf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t length = 0;
    const char32_t c = CharAt(bytes, at, &length);
    const bool overlong = (length == 3 && c < 0x800) || (length == 4 && (c < 0x10000 || c > 0x10FFFF));
    AppendUtf8(out, (c >= 0xD800 && c < 0xE000) || overlong ? 0xFFFD : c);
    at += length;
  }
  return out;
}

}  // namespace skein::text::templates
