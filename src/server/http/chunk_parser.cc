// SPDX-License-Identifier: Apache-2.0
#include "server/http/chunk_parser.h"

#include <algorithm>

namespace skein::server {
namespace {

constexpr std::size_t kSizeDigitsMax = 16;        // of one size, leading zeros included; fits 64 bits
constexpr std::size_t kSizeLineMax = 1024;        // bytes of a size with its extensions
constexpr std::size_t kExtensionBytesMax = 8192;  // of all extensions of a body
constexpr std::size_t kChunksFree = 1024;         // that may be as small as they like …
constexpr std::size_t kBytesPerChunk = 64;        // … beyond them the mean must be this
constexpr Refusal kBadSize{400, "a chunk's size must be hexadecimal digits, ended by CR LF or `;`"};

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void SkipBlanks(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
}

bool SkipToken(std::string_view& text) {
  std::size_t size = 0;
  while (size < text.size() && IsTokenCharacter(text[size])) ++size;
  text.remove_prefix(size);
  return size > 0;
}

bool SkipQuoted(std::string_view& text) {
  for (std::size_t at = 1; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      text.remove_prefix(at + 1);
      return true;
    }
  }
  return false;
}

// `;name`, `;name=value` or `;name="value"`, any number of them (RFC 9112, 7.1.1).
bool AreExtensions(std::string_view text) {
  while (!text.empty()) {
    if (text.front() != ';') return false;
    text.remove_prefix(1);
    SkipBlanks(text);
    if (!SkipToken(text)) return false;
    SkipBlanks(text);
    if (text.empty() || text.front() != '=') continue;
    text.remove_prefix(1);
    SkipBlanks(text);
    const bool ok = !text.empty() && text.front() == '"' ? SkipQuoted(text) : SkipToken(text);
    if (!ok) return false;
    SkipBlanks(text);
  }
  return true;
}

}  // namespace

std::size_t ChunkParser::Feed(std::string_view bytes, std::string& body) {
  std::size_t taken = 0;
  while (taken < bytes.size() && state_ == ParseState::kMore) {
    if (place_ == Place::kData) {
      const std::size_t now = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size() - taken));
      body.append(bytes.substr(taken, now));
      taken += now;
      left_ -= now;
      if (left_ == 0) place_ = Place::kDataCr;
    } else {
      TakeByte(bytes[taken++], body.size());
    }
  }
  return taken;
}

void ChunkParser::TakeByte(char byte, std::size_t body_bytes) {
  switch (place_) {
    case Place::kSize: return TakeSizeByte(byte, body_bytes);
    case Place::kDataCr:
      if (byte != '\r') return Refuse({400, "a chunk must end with CR LF after as many bytes as it said"});
      place_ = Place::kDataLf;
      return;
    case Place::kDataLf:
      if (byte != '\n') return Refuse({400, "a chunk must end with CR LF after as many bytes as it said"});
      place_ = Place::kSize;
      return;
    case Place::kTrailer: return TakeTrailerByte(byte);
    case Place::kData: return;  // Feed's
  }
}

void ChunkParser::TakeSizeByte(char byte, std::size_t body_bytes) {
  switch (reader_.Take(byte)) {
    case LineReader::Step::kRefused: return Refuse(reader_.refusal());
    case LineReader::Step::kLine:
      TakeSizeLine(reader_.line(), body_bytes);
      reader_.Clear();
      return;
    case LineReader::Step::kMore: {
      const std::string& line = reader_.line();
      // Seen at once: what is no size will not become one, and its sender may never end the line.
      if (line.size() <= kSizeDigitsMax + 1 && !line.empty() && line.find(';') == std::string::npos &&
          (line.size() > kSizeDigitsMax || HexDigit(line.back()) < 0)) {
        return Refuse(kBadSize);
      }
      if (line.size() > kSizeLineMax) return Refuse({400, "a chunk's extensions are too long"});
      return;
    }
  }
}

void ChunkParser::TakeSizeLine(std::string_view line, std::size_t body_bytes) {
  std::uint64_t size = 0;
  std::size_t digits = 0;
  while (digits < line.size() && HexDigit(line[digits]) >= 0) {
    if (digits == kSizeDigitsMax) return Refuse(kBadSize);
    size = size * 16 + static_cast<std::uint64_t>(HexDigit(line[digits++]));
  }
  if (digits == 0) return Refuse(kBadSize);
  extension_bytes_ += line.size() - digits;
  if (extension_bytes_ > kExtensionBytesMax) return Refuse({400, "a chunk's extensions are too long"});
  if (!AreExtensions(line.substr(digits))) return Refuse({400, "a chunk's extension must be `;name=value`"});
  if (size == 0) {
    place_ = Place::kTrailer;
    return;
  }
  if (size > limits_.body_bytes || body_bytes > limits_.body_bytes - size) {
    return Refuse({413, "the request's body is too large"});
  }
  if (++chunks_ > kChunksFree + body_bytes / kBytesPerChunk) {
    return Refuse({400, "the request's body comes in too many small chunks"});
  }
  left_ = size;
  place_ = Place::kData;
}

void ChunkParser::TakeTrailerByte(char byte) {
  constexpr Refusal kTooLong{431, "the request's trailers are too many or too long"};
  if (++trailer_bytes_ > limits_.header_bytes) return Refuse(kTooLong);
  switch (reader_.Take(byte)) {
    case LineReader::Step::kRefused: return Refuse(reader_.refusal());
    case LineReader::Step::kLine:
      if (!reader_.line().empty() && ++trailers_ > limits_.header_count) return Refuse(kTooLong);
      TakeTrailerLine(reader_.line());
      reader_.Clear();
      return;
    case LineReader::Step::kMore: return;
  }
}

void ChunkParser::TakeTrailerLine(std::string_view line) {
  if (line.empty()) {
    state_ = ParseState::kDone;
    return;
  }
  HttpHeader trailer;
  if (const auto refusal = ReadFieldLine(line, trailer)) return Refuse(*refusal);
  // A proxy that merges trailers into headers would read another request than we do.
  for (const std::string_view name : {"content-length", "transfer-encoding", "host", "authorization", "x-api-key"}) {
    if (trailer.name == name) return Refuse({400, "a trailer must not say what only a header may"});
  }
}

void ChunkParser::Refuse(Refusal refusal) {
  state_ = ParseState::kRefused;
  refusal_ = refusal;
}

}  // namespace skein::server
