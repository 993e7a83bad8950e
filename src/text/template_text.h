// SPDX-License-Identifier: Apache-2.0
//
// Text: a string of the template interpreter in which every byte knows where it came from: written by the template
// (or the engine: the begin-of-text token), or by somebody outside (a message, a tool, a request's argument).
// Filters and methods build new strings from slices of old ones with a TextBuilder, so the origin travels along and
// the text of a user can never become a special token, whatever the template does with it.
//
// UTF-8 in which, as in Python's str, lone surrogates may stand (three bytes each); they become U+FFFD on the way out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/template_meter.h"

namespace skein::text::templates {

constexpr bool kTrusted = true;
constexpr bool kUntrusted = false;

class Text {
 public:
  // A run of bytes of one origin: from the end of the run before (or 0) up to `end`.
  struct Run {
    std::size_t end;
    bool trusted;
  };

  Text() = default;
  Text(std::string bytes, bool trusted) : bytes_(std::move(bytes)), trusted_(trusted) {}

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // True when every byte is trusted (an empty text is).
  bool AllTrusted() const;
  bool TrustedAt(std::size_t byte) const;
  // One past the last byte, at most `end`, of the run of one origin that starts at `begin`.
  std::size_t RunEnd(std::size_t begin, std::size_t end) const;
  std::size_t MemoryBytes() const { return bytes_.capacity() + runs_.capacity() * sizeof(Run); }

 private:
  friend class TextBuilder;
  std::string bytes_;
  bool trusted_ = true;       // of the whole text when runs_ is empty
  std::vector<Run> runs_;     // ascending ends, neighbours differ; the last end is bytes_.size()
};

// Puts a Text together. Fails the meter, and appends nothing, when the text would grow past output_bytes.
class TextBuilder {
 public:
  explicit TextBuilder(Meter& meter) : meter_(&meter) {}

  void Append(std::string_view bytes, bool trusted);
  void Append(const Text& text);
  void Append(const Text& text, std::size_t begin, std::size_t end);
  // `count` copies of `text`.
  void AppendRepeated(const Text& text, std::uint64_t count);

  // Makes room where the size is known before.
  void Reserve(std::size_t bytes);

  std::size_t size() const { return text_.bytes_.size(); }
  const Text& text() const { return text_; }
  Text Take();

 private:
  Meter* meter_;
  Text text_;
};

// Characters (code points) of UTF-8 text. A byte that does not belong counts as a character of its own.
std::size_t CharLength(std::string_view bytes, std::size_t at);
char32_t CharAt(std::string_view bytes, std::size_t at, std::size_t* length);
std::size_t CountChars(std::string_view bytes);  // Requires: whole characters, as every Text has
void AppendUtf8(std::string& out, char32_t c);
// The start of the character that ends before `at`. Requires: at > 0.
std::size_t PreviousChar(std::string_view bytes, std::size_t at);
// The bytes with lone surrogates and broken sequences replaced, so that every reader can take them.
std::string ToValidUtf8(std::string_view bytes);

}  // namespace skein::text::templates
