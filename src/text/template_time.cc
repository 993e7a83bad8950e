// SPDX-License-Identifier: Apache-2.0
//
// strftime for strftime_now, in English and without a time zone; see template_format.h.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "text/template_format.h"

namespace skein::text::templates {
namespace {

constexpr std::array<std::string_view, 7> kDays = {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"};
constexpr std::array<std::string_view, 12> kMonths = {"January", "February", "March", "April", "May", "June", "July",
                                                      "August", "September", "October", "November", "December"};

struct Time {
  int year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0, microsecond = 0;

  bool Leap(int of) const { return of % 4 == 0 && (of % 100 != 0 || of % 400 == 0); }
  int YearDay() const {  // from 1
    constexpr std::array<int, 12> kBefore = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    return kBefore[static_cast<std::size_t>(month - 1)] + day + (month > 2 && Leap(year) ? 1 : 0);
  }
  int DaysSinceYearOne() const {
    const int before = year - 1;
    return before * 365 + before / 4 - before / 100 + before / 400 + YearDay() - 1;
  }
  int WeekDay() const { return DaysSinceYearOne() % 7; }  // Monday is 0
  std::int64_t EpochSeconds() const {
    constexpr int kDaysToEpoch = 719162;  // from 0001-01-01 to 1970-01-01
    return (DaysSinceYearOne() - kDaysToEpoch) * std::int64_t{86400} + hour * 3600 + minute * 60 + second;
  }
  int WeeksInYear(int of) const {
    Time first = *this;
    first.year = of;
    first.month = first.day = 1;
    const int day_one = first.WeekDay();
    return day_one == 3 || (day_one == 2 && Leap(of)) ? 53 : 52;
  }
  // The ISO week and the year that it belongs to.
  std::pair<int, int> IsoWeek() const {
    const int week = (YearDay() - 1 - WeekDay() + 10) / 7;
    if (week < 1) return {year - 1, WeeksInYear(year - 1)};
    if (week > WeeksInYear(year)) return {year + 1, 1};
    return {year, week};
  }
};

bool ParseTime(std::string_view now, Time* time) {
  const std::string text(now);
  int fraction_at = 0;
  const int read = std::sscanf(text.c_str(), "%4d-%2d-%2d%*1[T ]%2d:%2d:%2d%n", &time->year, &time->month, &time->day,
                               &time->hour, &time->minute, &time->second, &fraction_at);
  if (read != 3 && read != 6) return false;
  if (read == 6 && text[static_cast<std::size_t>(fraction_at)] == '.') {
    std::string digits = text.substr(static_cast<std::size_t>(fraction_at) + 1, 6);
    digits.resize(6, '0');
    time->microsecond = std::atoi(digits.c_str());
  }
  return time->year >= 1 && time->month >= 1 && time->month <= 12 && time->day >= 1 && time->day <= 31 &&
         time->hour >= 0 && time->hour < 24 && time->minute >= 0 && time->minute < 60 && time->second >= 0 &&
         time->second < 62;
}

std::string Code(const Time& t, char code, std::string_view whole) {
  const int hour12 = t.hour % 12 == 0 ? 12 : t.hour % 12;
  const std::string_view day = kDays[static_cast<std::size_t>(t.WeekDay())];
  const std::string_view month = kMonths[static_cast<std::size_t>(t.month - 1)];
  switch (code) {
    case 'Y': return fmt::format("{}", t.year);
    case 'C': return fmt::format("{:02}", t.year / 100);
    case 'y': return fmt::format("{:02}", t.year % 100);
    case 'm': return fmt::format("{:02}", t.month);
    case 'd': return fmt::format("{:02}", t.day);
    case 'e': return fmt::format("{:2}", t.day);
    case 'H': return fmt::format("{:02}", t.hour);
    case 'k': return fmt::format("{:2}", t.hour);
    case 'I': return fmt::format("{:02}", hour12);
    case 'l': return fmt::format("{:2}", hour12);
    case 'M': return fmt::format("{:02}", t.minute);
    case 'S': return fmt::format("{:02}", t.second);
    case 'f': return fmt::format("{:06}", t.microsecond);
    case 'p': return t.hour < 12 ? "AM" : "PM";
    case 'P': return t.hour < 12 ? "am" : "pm";
    case 'a': return std::string(day.substr(0, 3));
    case 'A': return std::string(day);
    case 'b':
    case 'h': return std::string(month.substr(0, 3));
    case 'B': return std::string(month);
    case 'j': return fmt::format("{:03}", t.YearDay());
    case 's': return fmt::format("{}", t.EpochSeconds());
    case 'u': return fmt::format("{}", t.WeekDay() + 1);
    case 'w': return fmt::format("{}", (t.WeekDay() + 1) % 7);
    case 'U': return fmt::format("{:02}", (t.YearDay() + 6 - (t.WeekDay() + 1) % 7) / 7);
    case 'W': return fmt::format("{:02}", (t.YearDay() + 6 - t.WeekDay()) / 7);
    case 'V': return fmt::format("{:02}", t.IsoWeek().second);
    case 'G': return fmt::format("{}", t.IsoWeek().first);
    case 'g': return fmt::format("{:02}", t.IsoWeek().first % 100);
    case 'D':
    case 'x': return fmt::format("{:02}/{:02}/{:02}", t.month, t.day, t.year % 100);
    case 'F': return fmt::format("{}-{:02}-{:02}", t.year, t.month, t.day);
    case 'T':
    case 'X': return fmt::format("{:02}:{:02}:{:02}", t.hour, t.minute, t.second);
    case 'R': return fmt::format("{:02}:{:02}", t.hour, t.minute);
    case 'r': return fmt::format("{:02}:{:02}:{:02} {}", hour12, t.minute, t.second, t.hour < 12 ? "AM" : "PM");
    case 'c':
      return fmt::format("{} {} {:2} {:02}:{:02}:{:02} {}", day.substr(0, 3), month.substr(0, 3), t.day, t.hour,
                         t.minute, t.second, t.year);
    case 'n': return "\n";
    case 't': return "\t";
    case 'Z':
    case 'z': return "";
    case '%': return "%";
    default: return std::string(whole);
  }
}

}  // namespace

std::string FormatTime(Run& run, std::string_view now, std::string_view pattern) {
  Time time;
  if (!ParseTime(now, &time)) {
    run.Fail(fmt::format("the time '{}' is not like 2026-01-31T12:00:00", now));
    return "";
  }
  std::string out;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '%' || at + 1 >= pattern.size()) {
      out.push_back(pattern[at]);
      continue;
    }
    std::size_t code = at + 1;
    const bool no_padding = pattern[code] == '-' && code + 1 < pattern.size();
    if (no_padding) ++code;
    std::string piece = Code(time, pattern[code], pattern.substr(at, code + 1 - at));
    if (no_padding) {
      const std::size_t digit = piece.find_first_not_of("0 ");
      piece.erase(0, digit == std::string::npos ? piece.size() - 1 : digit);
    }
    out += piece;
    at = code;
  }
  return out;
}

}  // namespace skein::text::templates
