// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "base/json_writer.h"
#include "base/output_file.h"

namespace skein {

std::string_view NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kError: return "error";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kInfo: return "info";
    case LogLevel::kDebug: return "debug";
  }
  return "info";
}

std::optional<LogLevel> LogLevelFromName(std::string_view name) {
  for (const LogLevel level : {LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo, LogLevel::kDebug}) {
    if (NameOf(level) == name) return level;
  }
  return std::nullopt;
}

void Logger::Write(LogLevel level, std::string_view text) const {
  if (!Wants(level)) return;
  std::string line;
  if (json_) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    JsonWriter json;
    json.BeginObject()
        .Member("time_ms", std::int64_t{std::chrono::duration_cast<std::chrono::milliseconds>(now).count()})
        .Member("level", NameOf(level))
        .Member("message", text)
        .EndObject();
    line = json.Take();
  } else {
    line = fmt::format("skein: {}{}", level == LogLevel::kWarning ? "note: " : "", text);
  }
  line += '\n';
  // Nobody is left to be told when the log itself cannot be written.
  static_cast<void>(WriteAll(descriptor_, std::as_bytes(std::span(line.data(), line.size())), "the log").ok());
}

}  // namespace skein
