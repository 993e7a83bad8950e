// SPDX-License-Identifier: Apache-2.0
#include "text/detokenizer.h"

#include <utility>

#include "text/unicode.h"

namespace skein::text {

std::string Detokenizer::Push(TokenId id) {
  if (skip_special_ && tokenizer_->IsSpecial(id)) return std::string();
  std::string_view piece = tokenizer_->PieceBytes(id);
  if (drop_space_ && !piece.empty()) {
    if (piece.front() == ' ') piece.remove_prefix(1);
    drop_space_ = false;
  }
  waiting_.append(piece);
  std::string text;
  std::size_t place = 0;
  while (place < waiting_.size()) {
    const Decoded found = DecodeUtf8(waiting_, place);
    if (found.truncated) break;
    if (found.valid) {
      text.append(waiting_, place, found.bytes);
    } else {
      text.append(kReplacementUtf8);
    }
    place += found.bytes;
  }
  waiting_.erase(0, place);
  return text;
}

std::string Detokenizer::Finish() { return RepairUtf8(std::exchange(waiting_, std::string())); }

}  // namespace skein::text
