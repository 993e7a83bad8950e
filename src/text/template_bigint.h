// SPDX-License-Identifier: Apache-2.0
//
// BigInt: integers of any size, for the rare template that leaves 64 bits. Plain schoolbook arithmetic: whoever
// computes with them keeps them small (template_operators.cc). Values.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skein::text::templates {

class BigInt {
 public:
  BigInt() = default;
  BigInt(std::int64_t value);  // NOLINT: implicit on purpose
  static BigInt FromUnsigned(std::uint64_t value);
  // The whole part. Requires: finite.
  static BigInt FromDouble(double value);
  // Requires: every character is a digit of the base (2 to 36), in either case.
  static BigInt FromDigits(std::string_view digits, unsigned base);

  bool negative() const { return negative_; }
  bool zero() const { return words_.empty(); }
  bool odd() const { return !words_.empty() && (words_[0] & 1) != 0; }
  std::size_t Bits() const;  // of the magnitude; 0 for zero
  std::optional<std::int64_t> ToInt64() const;
  double ToDouble() const;   // rounded to nearest; infinite when too large
  std::string ToString(unsigned base = 10) const;  // lower case

  BigInt operator-() const;
  friend BigInt operator+(const BigInt& a, const BigInt& b);
  friend BigInt operator-(const BigInt& a, const BigInt& b) { return a + -b; }
  friend BigInt operator*(const BigInt& a, const BigInt& b);
  // The quotient rounded down, and what is left. Requires: b is not zero.
  static void Divide(const BigInt& a, const BigInt& b, BigInt* quotient, BigInt* rest);
  static BigInt Power(const BigInt& base, unsigned exponent);

  friend bool operator==(const BigInt& a, const BigInt& b) = default;
  friend std::strong_ordering operator<=>(const BigInt& a, const BigInt& b);

 private:
  using Words = std::vector<std::uint32_t>;
  static std::strong_ordering CompareMagnitude(const Words& a, const Words& b);
  static Words Add(const Words& a, const Words& b);
  static Words Subtract(const Words& a, const Words& b);  // Requires: a >= b
  static std::uint32_t DivideSmall(Words& words, std::uint32_t divisor);
  void Trim();

  bool negative_ = false;  // never of zero
  Words words_;            // the magnitude, least significant first, no zeros at the end
};

}  // namespace skein::text::templates
