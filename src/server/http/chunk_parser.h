// SPDX-License-Identifier: Apache-2.0
//
// ChunkParser takes a chunked body apart as it arrives:
//
//     size in hex [; extension]… CR LF   bytes CR LF   …   0 CR LF   [trailer CR LF]…   CR LF
//
// Sizes are plain hex digits. Extensions and trailers are checked, bounded and dropped. Chunks may be small, but not
// so many that their frames cost more than their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/field_line.h"
#include "server/http/http_options.h"
#include "server/http/refusal.h"

namespace skein::server {

class ChunkParser {
 public:
  // `limits` outlives the parser.
  explicit ChunkParser(const HttpLimits& limits) : limits_(limits) {}

  // Takes bytes while the body is not complete, and appends what they carry to `body`; returns how many it took.
  std::size_t Feed(std::string_view bytes, std::string& body);

  ParseState state() const { return state_; }
  const Refusal& refusal() const { return refusal_; }  // Requires: state() == kRefused

 private:
  enum class Place { kSize, kData, kDataCr, kDataLf, kTrailer };

  void TakeByte(char byte, std::size_t body_bytes);
  void TakeSizeByte(char byte, std::size_t body_bytes);
  void TakeSizeLine(std::string_view line, std::size_t body_bytes);
  void TakeTrailerByte(char byte);
  void TakeTrailerLine(std::string_view line);
  void Refuse(Refusal refusal);

  const HttpLimits& limits_;
  ParseState state_ = ParseState::kMore;
  Refusal refusal_;
  Place place_ = Place::kSize;
  LineReader reader_;
  std::uint64_t left_ = 0;           // bytes of this chunk still to come
  std::size_t chunks_ = 0;           // so far
  std::size_t extension_bytes_ = 0;  // of all chunks so far
  std::size_t trailer_bytes_ = 0, trailers_ = 0;
};

}  // namespace skein::server
