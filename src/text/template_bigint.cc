// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic of large integers; see template_bigint.h.
#include "text/template_bigint.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace skein::text::templates {

BigInt::BigInt(std::int64_t value) {
  *this = FromUnsigned(value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value));
  negative_ = value < 0;
}

BigInt BigInt::FromUnsigned(std::uint64_t value) {
  BigInt result;
  for (; value != 0; value >>= 32) result.words_.push_back(static_cast<std::uint32_t>(value));
  return result;
}

BigInt BigInt::FromDouble(double value) {
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(std::trunc(value)), &exponent);  // in [0.5, 1)
  BigInt result = FromUnsigned(static_cast<std::uint64_t>(std::ldexp(fraction, 53)));
  if (exponent >= 53) {
    result = result * Power(2, static_cast<unsigned>(exponent - 53));
  } else {
    result = FromUnsigned(static_cast<std::uint64_t>(std::fabs(std::trunc(value))));
  }
  result.negative_ = value < 0 && !result.zero();
  return result;
}

BigInt BigInt::FromDigits(std::string_view digits, unsigned base) {
  BigInt result;
  for (const char c : digits) {
    std::uint64_t carry = static_cast<std::uint64_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    for (std::uint32_t& word : result.words_) {
      carry += std::uint64_t{word} * base;
      word = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) result.words_.push_back(static_cast<std::uint32_t>(carry));
  }
  return result;
}

std::size_t BigInt::Bits() const {
  return words_.empty() ? 0 : words_.size() * 32 - static_cast<std::size_t>(std::countl_zero(words_.back()));
}

std::optional<std::int64_t> BigInt::ToInt64() const {
  if (words_.size() > 2) return std::nullopt;
  std::uint64_t magnitude = 0;
  for (std::size_t i = words_.size(); i-- > 0;) magnitude = magnitude << 32 | words_[i];
  constexpr std::uint64_t kMost = std::uint64_t{1} << 63;
  if (magnitude > kMost || (magnitude == kMost && !negative_)) return std::nullopt;
  return static_cast<std::int64_t>(negative_ ? ~magnitude + 1 : magnitude);
}

double BigInt::ToDouble() const {
  // The topmost 64 bits, the last of them set when anything below is lost, round as the whole number would.
  const std::size_t bits = Bits();
  std::uint64_t top = 0;
  bool lost = false;
  const std::size_t shift = bits > 64 ? bits - 64 : 0;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    for (std::size_t bit = 0; bit < 32; ++bit) {
      if ((words_[i] >> bit & 1) == 0) continue;
      const std::size_t place = i * 32 + bit;
      if (place < shift) {
        lost = true;
      } else {
        top |= std::uint64_t{1} << (place - shift);
      }
    }
  }
  const double magnitude = std::ldexp(static_cast<double>(top | (lost ? 1 : 0)), static_cast<int>(std::min<std::size_t>(shift, 5000)));
  return negative_ ? -magnitude : magnitude;
}

std::string BigInt::ToString(unsigned base) const {
  if (words_.empty()) return "0";
  // Chunks of as many digits as fit a word.
  std::uint32_t chunk = base;
  unsigned digits_per_chunk = 1;
  while (std::uint64_t{chunk} * base <= 0xFFFFFFFFu) {
    chunk *= base;
    ++digits_per_chunk;
  }
  std::string out;
  for (Words rest = words_; !rest.empty();) {
    std::uint32_t piece = DivideSmall(rest, chunk);
    for (unsigned i = 0; i < digits_per_chunk && (piece != 0 || !rest.empty()); ++i, piece /= base) {
      out.push_back("0123456789abcdefghijklmnopqrstuvwxyz"[piece % base]);
    }
  }
  if (negative_) out.push_back('-');
  std::reverse(out.begin(), out.end());
  return out;
}

BigInt BigInt::operator-() const {
  BigInt result = *this;
  result.negative_ = !negative_ && !zero();
  return result;
}

BigInt operator+(const BigInt& a, const BigInt& b) {
  BigInt result;
  if (a.negative_ == b.negative_) {
    result.words_ = BigInt::Add(a.words_, b.words_);
    result.negative_ = a.negative_;
  } else {
    const bool a_larger = BigInt::CompareMagnitude(a.words_, b.words_) >= 0;
    result.words_ = a_larger ? BigInt::Subtract(a.words_, b.words_) : BigInt::Subtract(b.words_, a.words_);
    result.negative_ = a_larger ? a.negative_ : b.negative_;
  }
  result.Trim();
  return result;
}

BigInt operator*(const BigInt& a, const BigInt& b) {
  BigInt result;
  result.words_.resize(a.words_.size() + b.words_.size());
  for (std::size_t i = 0; i < a.words_.size(); ++i) {
    std::uint64_t carry = 0;
    for (std::size_t j = 0; j < b.words_.size() || carry != 0; ++j) {
      carry += result.words_[i + j] + (j < b.words_.size() ? std::uint64_t{a.words_[i]} * b.words_[j] : 0);
      result.words_[i + j] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
  }
  result.negative_ = a.negative_ != b.negative_;
  result.Trim();
  return result;
}

void BigInt::Divide(const BigInt& a, const BigInt& b, BigInt* quotient, BigInt* rest) {
  // One bit after the other, on the magnitudes.
  Words q(a.words_.size());
  Words r;
  for (std::size_t bit = a.Bits(); bit-- > 0;) {
    std::uint32_t carry = a.words_[bit / 32] >> (bit % 32) & 1;
    for (std::uint32_t& word : r) {
      const std::uint32_t next = word >> 31;
      word = word << 1 | carry;
      carry = next;
    }
    if (carry != 0) r.push_back(carry);
    if (CompareMagnitude(r, b.words_) >= 0) {
      r = Subtract(r, b.words_);
      while (!r.empty() && r.back() == 0) r.pop_back();
      q[bit / 32] |= std::uint32_t{1} << (bit % 32);
    }
  }
  quotient->words_ = std::move(q);
  quotient->negative_ = a.negative_ != b.negative_;
  quotient->Trim();
  rest->words_ = std::move(r);
  rest->negative_ = a.negative_;
  rest->Trim();
  if (!rest->zero() && a.negative_ != b.negative_) {
    *quotient = *quotient - 1;
    *rest = *rest + b;
  }
}

BigInt BigInt::Power(const BigInt& base, unsigned exponent) {
  BigInt result = 1;
  BigInt square = base;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = result * square;
    if (exponent > 1) square = square * square;
  }
  return result;
}

std::strong_ordering operator<=>(const BigInt& a, const BigInt& b) {
  if (a.negative_ != b.negative_) return a.negative_ ? std::strong_ordering::less : std::strong_ordering::greater;
  return a.negative_ ? BigInt::CompareMagnitude(b.words_, a.words_) : BigInt::CompareMagnitude(a.words_, b.words_);
}

std::strong_ordering BigInt::CompareMagnitude(const Words& a, const Words& b) {
  if (a.size() != b.size()) return a.size() <=> b.size();
  for (std::size_t i = a.size(); i-- > 0;) {
    if (a[i] != b[i]) return a[i] <=> b[i];
  }
  return std::strong_ordering::equal;
}

BigInt::Words BigInt::Add(const Words& a, const Words& b) {
  Words sum;
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()) || carry != 0; ++i) {
    carry += (i < a.size() ? std::uint64_t{a[i]} : 0) + (i < b.size() ? b[i] : 0);
    sum.push_back(static_cast<std::uint32_t>(carry));
    carry >>= 32;
  }
  return sum;
}

BigInt::Words BigInt::Subtract(const Words& a, const Words& b) {
  Words difference = a;
  std::int64_t borrow = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    borrow += std::int64_t{a[i]} - (i < b.size() ? std::int64_t{b[i]} : 0);
    difference[i] = static_cast<std::uint32_t>(borrow);
    borrow >>= 32;  // 0 or -1
  }
  return difference;
}

std::uint32_t BigInt::DivideSmall(Words& words, std::uint32_t divisor) {
  std::uint64_t rest = 0;
  for (std::size_t i = words.size(); i-- > 0;) {
    rest = rest << 32 | words[i];
    words[i] = static_cast<std::uint32_t>(rest / divisor);
    rest %= divisor;
  }
  while (!words.empty() && words.back() == 0) words.pop_back();
  return static_cast<std::uint32_t>(rest);
}

void BigInt::Trim() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
  if (words_.empty()) negative_ = false;
}

}  // namespace skein::text::templates
