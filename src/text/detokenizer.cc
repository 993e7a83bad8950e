// SPDX-License-Identifier: Apache-2.0
#include "text/detokenizer.h"

#include "text/unicode.h"

namespace skein::text {

std::string Detokenizer::Push(TokenId id) {
  std::string text;
  Push(id, text);
  return text;
}

void Detokenizer::Push(TokenId id, std::string& text) {
  if (skip_special_ && tokenizer_->IsSpecial(id)) return;
  std::string_view piece = tokenizer_->PieceBytes(id);
  if (piece.empty()) return;
  if (tokenizer_->IsBytePiece(id)) {
    if (drop_space_ && waiting_.empty() && piece == " ") piece = std::string_view();
    drop_space_ = false;
    waiting_.append(piece);
    return;
  }
  if (tokenizer_->has_byte_pieces()) AppendRow(text);
  if (drop_space_ && piece.front() == ' ') piece.remove_prefix(1);
  drop_space_ = false;
  waiting_.append(piece);
  AppendWhole(text);
}

std::string Detokenizer::Finish() {
  std::string text;
  if (tokenizer_->has_byte_pieces()) AppendRow(text);
  text.append(RepairUtf8(waiting_));
  waiting_.clear();
  return text;
}

// All characters and malformed parts that no later byte can change.
void Detokenizer::AppendWhole(std::string& text) {
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
}

// The row of byte pieces, which is over.
void Detokenizer::AppendRow(std::string& text) {
  if (IsValidUtf8(waiting_)) {
    text.append(waiting_);
  } else {
    for (std::size_t count = waiting_.size(); count > 0; --count) text.append(kReplacementUtf8);
  }
  waiting_.clear();
}

}  // namespace skein::text
