// SPDX-License-Identifier: Apache-2.0
//
// Coefficients of our exp and log, shared by the vector forms (v16.h) and the scalar ones (scalar_math.h), so that
// both give the same bits. Fitted by weighted least squares to the largest relative error (docs/numerics.md).
#pragma once

namespace skein::kernels::math {

// Adding and subtracting this rounds |x| < 2^22 to an integer, ties to even; the integer stands in the low bits.
inline constexpr float kRoundingMagic = 12582912.0f;  // 1.5 * 2^23
inline constexpr float kLog2E = 0x1.715476p+0f;
inline constexpr float kLn2High = 0x1.62e430p-1f;
inline constexpr float kLn2Low = -0x1.05c610p-29f;

// Below kExpLowest exp gives 0, above kExpHighest it gives exp(kExpHighest): the result is never denormal or infinite.
inline constexpr float kExpLowest = -87.336f;
inline constexpr float kExpHighest = 88.37f;

// exp(r) = 1 + r + r^2 (E2 + E3 r + ... + E6 r^4), |r| <= ln(2)/2; relative error 3e-9.
inline constexpr float kE2 = 0x1.fffffcp-2f, kE3 = 0x1.555492p-3f, kE4 = 0x1.5558f2p-5f, kE5 = 0x1.1239fep-7f,
                       kE6 = 0x1.6a2406p-10f;

// log(1 + z) = z - z^2/2 + z^3 (L3 + L4 z + ... + L11 z^8), sqrt(1/2) <= 1 + z < sqrt(2); relative error 1e-9.
inline constexpr float kLog[9] = {0x1.555548p-2f,  -0x1.000006p-2f, 0x1.99a4b6p-3f,  -0x1.555c4ep-3f, 0x1.233768p-3f,
                                  -0x1.fc2208p-4f, 0x1.e6f06ap-4f,  -0x1.de3c16p-4f, 0x1.1457a8p-4f};

// 2^f = 1 + f (c[0] + c[1] f + ...), |f| <= 1/2, for probabilities of attention: relative error 3e-6 where they are
// rounded to bf16 (2e-3) afterwards, 2e-9 where nothing is rounded. Arguments below kExp2Lowest count as that.
inline constexpr float kExp2Coarse[4] = {0x1.62e12cp-1f, 0x1.ec0378p-3f, 0x1.c9fc46p-5f, 0x1.3a02ccp-7f};
inline constexpr float kExp2Fine[6] = {0x1.62e430p-1f, 0x1.ebfbdcp-3f,  0x1.c6aee8p-5f,
                                       0x1.3b2d4cp-7f, 0x1.5f3e52p-10f, 0x1.41fbbcp-13f};
inline constexpr float kExp2Lowest = -126.0f;

// From the bits of an fp32 number without the lower 20 to those of E4M3, whose exponents are smaller by 120.
inline constexpr int kE4M3Bias = 120 << 3;

// Vectors whose largest magnitude is below this are all zeros to the integer roundings (127 / it stays finite).
inline constexpr float kSmallestMagnitude = 0x1p-100f;

}  // namespace skein::kernels::math
