// SPDX-License-Identifier: Apache-2.0
//
// Logger writes one line per event to a descriptor: `skein: text`, or a JSON object. The program makes one and hands it
// to whoever has something to say; there is no global logger, and prompts are never logged.
//
// Thread rule: Write may be called by several threads; a line is one write.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace skein {

class LogWriter;

enum class LogLevel { kError, kWarning, kInfo, kDebug };

std::string_view NameOf(LogLevel level);  // "error", "warning", "info", "debug"
std::optional<LogLevel> LogLevelFromName(std::string_view name);

// A fact beside a line's text: a member of its own in JSON, name=value in text.
struct LogField {
  std::string_view name;
  std::variant<std::string_view, std::int64_t, double> value;
};

class Logger {
 public:
  Logger(int descriptor, LogLevel level, bool json) : descriptor_(descriptor), level_(level), json_(json) {}

  // From now on lines are written by a thread of their own (LogWriter): for a program that must not wait for its log.
  void WriteBehind();
  // Lines that could not be written, of those written behind.
  std::uint64_t lines_lost() const;
  bool Wants(LogLevel level) const { return level <= level_; }
  // A line for people that no level holds back; it keeps its place among the others.
  void WriteLine(std::string line) const;
  void Write(LogLevel level, std::string_view text, std::span<const LogField> fields = {}) const;

 private:
  int descriptor_;
  LogLevel level_;
  bool json_;
  std::shared_ptr<LogWriter> behind_;  // shared by copies; none: lines are written at once
};

}  // namespace skein
