// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace skein {
namespace {

// Bytes of the well-formed UTF-8 character at the start of `text`, or 0 when there is none (RFC 3629: no overlong
// forms, no surrogates, nothing above U+10FFFF).
std::size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const unsigned low = first == 0xe0 ? 0xa0 : 0x80, high = first == 0xed ? 0x9f : 0xbf;
    return byte(1) >= low && byte(1) <= high && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const unsigned low = first == 0xf0 ? 0x90 : 0x80, high = first == 0xf4 ? 0x8f : 0xbf;
    return byte(1) >= low && byte(1) <= high && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

void AppendJsonString(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const std::size_t bytes = CharacterBytes(text.substr(i));
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else if (bytes == 0) {
      out += "\xef\xbf\xbd";
    } else {
      out.append(text, i, bytes);
    }
    i += bytes == 0 ? 1 : bytes;
  }
  out += '"';
}

void JsonWriter::BeforeValue() {
  if (needs_comma_) out_ += ',';
  needs_comma_ = true;
}

JsonWriter& JsonWriter::Open(char bracket) {
  BeforeValue();
  out_ += bracket;
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  out_ += bracket;
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  BeforeValue();
  AppendJsonString(out_, key);
  out_ += ':';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Text(std::string_view text) {
  BeforeValue();
  AppendJsonString(out_, text);
  return *this;
}

JsonWriter& JsonWriter::Raw(std::string_view json) {
  BeforeValue();
  out_ += json;
  return *this;
}

JsonWriter& JsonWriter::Value(double value) { return std::isfinite(value) ? Raw(fmt::format("{}", value)) : Null(); }
JsonWriter& JsonWriter::Value(float value) { return std::isfinite(value) ? Raw(fmt::format("{}", value)) : Null(); }
JsonWriter& JsonWriter::Value(bool value) { return Raw(value ? "true" : "false"); }
JsonWriter& JsonWriter::Value(std::int64_t value) { return Raw(fmt::format("{}", value)); }
JsonWriter& JsonWriter::Value(std::uint64_t value) { return Raw(fmt::format("{}", value)); }

}  // namespace skein
