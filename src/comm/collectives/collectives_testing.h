// SPDX-License-Identifier: Apache-2.0
//
// What tests ask of collectives, whatever the transport: every member calls the same function and says what was wrong, nothing when all was well.
#pragma once

#include <array>
#include <string>

#include "comm/communicator.h"

namespace skein::comm {

constexpr std::array<WireTypes, 5> kTestedWires = {{{WireType::kFp32, WireType::kFp32},
                                                    {WireType::kBf16, WireType::kBf16},
                                                    {WireType::kInt8, WireType::kInt8},
                                                    {WireType::kFp32, WireType::kInt8},
                                                    {WireType::kBf16, WireType::kFp32}}};

// All algorithms over sizes of all kinds: the exact ones give the one sum bit for bit, the others come near, and all members have the
// same. `seed` is a member's own: whether it comes late.
std::string CheckSums(Communicator& communicator, unsigned seed);

// Gathers, broadcasts, pipelines and barriers in some order, the same for all members.
std::string CheckMoving(Transport& transport, int rounds);

}  // namespace skein::comm
