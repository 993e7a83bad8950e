// SPDX-License-Identifier: Apache-2.0
#include "bench_serve_http.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace skein::app {
namespace {

constexpr std::size_t kHeadBytesMax = 64 << 10;
constexpr std::size_t kChunkLineBytesMax = 1 << 10;
constexpr std::size_t kTrailerBytesMax = 16 << 10;
constexpr std::size_t kShownBytes = 40;

// What of hostile bytes a message shows.
std::string Shown(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, kShownBytes)) shown += c >= ' ' && c <= '~' ? c : '?';
  return shown;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view Trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// The whole text as a number.
bool ReadNumber(std::string_view text, int base, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

HttpAnswerParser::State HttpAnswerParser::Fail(std::string reason) {
  reason_ = std::move(reason);
  return state_ = State::kFailed;
}

HttpAnswerParser::State HttpAnswerParser::Feed(std::string_view bytes, std::string& body) {
  bool goes_on = true;
  while (state_ == State::kReading && goes_on) {
    if (bytes.empty() && phase_ != Phase::kLength) break;  // a length of 0 ends without bytes
    switch (phase_) {
      case Phase::kHead: goes_on = ReadHead(bytes); break;
      case Phase::kChunkSize: goes_on = ReadChunkSize(bytes); break;
      case Phase::kTrailer: goes_on = ReadTrailer(bytes); break;
      case Phase::kChunkEnd:
        goes_on = TakeLine(bytes, kChunkLineBytesMax, "the end of a chunk");
        if (!goes_on) break;
        if (!line_.empty()) return Fail(fmt::format("a chunk is longer than its size says: '{}'", Shown(line_)));
        line_.clear();
        phase_ = Phase::kChunkSize;
        break;
      case Phase::kUntilClose:
        body.append(bytes);
        bytes = {};
        break;
      case Phase::kLength:
      case Phase::kChunkData:
        TakeBody(bytes, body);
        goes_on = !bytes.empty();
        break;
    }
  }
  if (state_ == State::kDone && !bytes.empty()) excess_ = true;
  return state_;
}

HttpAnswerParser::State HttpAnswerParser::FeedEnd() {
  if (state_ != State::kReading) return state_;
  keeps_ = false;
  if (phase_ == Phase::kUntilClose) return state_ = State::kDone;
  if (phase_ == Phase::kHead) return Fail(head_.empty() ? "closed without an answer" : "closed within the head of its answer");
  return Fail("closed within its answer");
}

bool HttpAnswerParser::ReadHead(std::string_view& bytes) {
  // The end may lie across two reads.
  const std::size_t searched = head_.size() < 3 ? 0 : head_.size() - 3;
  const std::size_t before = head_.size();
  const std::size_t taken = std::min(bytes.size(), kHeadBytesMax - head_.size());
  head_.append(bytes.substr(0, taken));
  const std::size_t end = head_.find("\r\n\r\n", searched);
  const std::string_view begin = std::string_view(head_).substr(0, 5);
  if (begin != std::string_view("HTTP/").substr(0, begin.size())) {
    Fail(fmt::format("is no HTTP: '{}'", Shown(head_)));
    return false;
  }
  if (end == std::string::npos) {
    bytes.remove_prefix(taken);
    if (head_.size() == kHeadBytesMax) Fail(fmt::format("the head of an answer is longer than {} bytes", kHeadBytesMax));
    return false;
  }
  bytes.remove_prefix(end + 4 - before);
  head_.resize(end);
  return InterpretHead();
}

bool HttpAnswerParser::InterpretHead() {
  // "HTTP/1.1 200 OK"
  const std::string_view head = head_;
  const std::string_view first = head.substr(0, head.find("\r\n"));
  std::uint64_t status = 0;
  const bool shaped = first.size() >= 12 && first.starts_with("HTTP/1.") && first[8] == ' ' && (first.size() == 12 || first[12] == ' ');
  if (!shaped || !ReadNumber(first.substr(9, 3), 10, status) || status < 100) {
    Fail(fmt::format("is no HTTP: '{}'", Shown(first)));
    return false;
  }
  status_ = static_cast<int>(status);
  keeps_ = first[7] == '1';
  for (std::size_t at = first.size(); at < head.size();) {
    at += 2;
    const std::size_t end = std::min(head.find("\r\n", at), head.size());
    if (!InterpretField(head.substr(at, end - at))) return false;
    at = end;
  }
  if (status_ < 200) {  // interim: the real answer follows
    *this = HttpAnswerParser();
    return true;
  }
  if (status_ == 204 || status_ == 304) {
    phase_ = Phase::kLength;
  } else if (chunked_) {
    phase_ = Phase::kChunkSize;
  } else {
    phase_ = has_length_ ? Phase::kLength : Phase::kUntilClose;
  }
  return true;
}

bool HttpAnswerParser::InterpretField(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) {
    Fail(fmt::format("a header is no header: '{}'", Shown(line)));
    return false;
  }
  const std::string name = Lower(line.substr(0, colon));
  const std::string value = Lower(Trim(line.substr(colon + 1)));
  if (name == "transfer-encoding") {
    if (value != "chunked") {
      Fail(fmt::format("Transfer-Encoding is expected to be chunked, found '{}'", Shown(value)));
      return false;
    }
    chunked_ = true;
  } else if (name == "content-length") {
    std::uint64_t length = 0;
    if (!ReadNumber(value, 10, length) || (has_length_ && length != left_)) {
      Fail(fmt::format("Content-Length is expected to be one number, found '{}'", Shown(value)));
      return false;
    }
    has_length_ = true;
    left_ = length;
  } else if (name == "connection") {
    if (value.find("close") != std::string::npos) keeps_ = false;
    if (value.find("keep-alive") != std::string::npos) keeps_ = true;
  }
  return true;
}

bool HttpAnswerParser::TakeLine(std::string_view& bytes, std::size_t bytes_max, std::string_view what) {
  const std::size_t end = bytes.find('\n');
  const std::string_view part = bytes.substr(0, end);
  if (line_.size() + part.size() > bytes_max) {
    Fail(fmt::format("{} is longer than {} bytes", what, bytes_max));
    return false;
  }
  line_.append(part);
  if (end == std::string_view::npos) {
    bytes = {};
    return false;
  }
  bytes.remove_prefix(end + 1);
  if (line_.ends_with('\r')) line_.pop_back();
  return true;
}

bool HttpAnswerParser::ReadChunkSize(std::string_view& bytes) {
  if (!TakeLine(bytes, kChunkLineBytesMax, "the size of a chunk")) return false;
  const std::string_view digits = Trim(std::string_view(line_).substr(0, line_.find(';')));
  if (digits.size() > 15 || !ReadNumber(digits, 16, left_)) {
    Fail(fmt::format("the size of a chunk is expected to be a hexadecimal number, found '{}'", Shown(line_)));
    return false;
  }
  line_.clear();
  phase_ = left_ == 0 ? Phase::kTrailer : Phase::kChunkData;
  return true;
}

bool HttpAnswerParser::ReadTrailer(std::string_view& bytes) {
  if (!TakeLine(bytes, kTrailerBytesMax, "the trailer")) return false;
  trailer_bytes_ += line_.size() + 2;
  if (line_.empty()) {
    state_ = State::kDone;
  } else if (trailer_bytes_ > kTrailerBytesMax) {
    Fail(fmt::format("the trailer is longer than {} bytes", kTrailerBytesMax));
  }
  line_.clear();
  return state_ == State::kReading;
}

void HttpAnswerParser::TakeBody(std::string_view& bytes, std::string& body) {
  const std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size()));
  body.append(bytes.substr(0, count));
  bytes.remove_prefix(count);
  left_ -= count;
  if (left_ > 0) return;
  if (phase_ == Phase::kLength) {
    state_ = State::kDone;
  } else {
    phase_ = Phase::kChunkEnd;
  }
}

}  // namespace skein::app
