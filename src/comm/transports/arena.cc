// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <optional>

#include "base/checked.h"
#include "base/wire.h"

namespace skein::comm {
namespace {

constexpr std::uint64_t kMagic = 0x4e52414e49454b53;  // "SKEINARN"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kUnit = 128;
constexpr std::size_t kFailureOffset = 128;
constexpr std::size_t kTakenOffset = 256;
constexpr std::uint32_t kMembersMax = 256;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

struct Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t members;
  std::uint64_t slot_bytes;
  std::uint64_t total_bytes;
  std::uint32_t crc;
};

std::uint32_t CrcOf(const Header& header) {
  return wire::Crc32c({reinterpret_cast<const std::byte*>(&header), offsetof(Header, crc)});
}

std::size_t FlagsOffset(std::uint64_t members) { return (kTakenOffset + members * 4 + kUnit - 1) / kUnit * kUnit; }
std::size_t LinesOffset(std::uint64_t members) { return FlagsOffset(members) + members * members * sizeof(Flag); }
std::size_t LinesPerPair(std::uint64_t members) { return static_cast<std::size_t>(Transport::kSlots * LinesOf(static_cast<int>(members))); }
std::size_t SlotsOffset(std::uint64_t members) {
  return LinesOffset(members) + (members * members * LinesPerPair(members) * sizeof(Line) + kUnit - 1) / kUnit * kUnit;
}

// Nothing when slots of that size cannot be addressed.
std::optional<std::uint64_t> TotalBytes(std::uint64_t members, std::uint64_t slot_bytes) {
  const auto stride = CheckedAdd(slot_bytes, Transport::kSlack);
  const auto slots = stride ? CheckedMultiply(*stride, Transport::kSlots) : std::nullopt;
  if (!slots || *slots > std::numeric_limits<std::uint32_t>::max() || slot_bytes % kUnit != 0 || slot_bytes == 0) return std::nullopt;
  const auto all = CheckedMultiply(*slots, members);
  // Vector code may look beyond the last slot.
  return all ? CheckedAdd(*all, SlotsOffset(members) + Transport::kSlack) : std::nullopt;
}

Status Refused(std::string_view what) {
  return InvalidFile(fmt::format("shared memory of another rank was expected, {}; start all ranks with the same program", what));
}

Result<std::byte*> Map(std::size_t bytes, int descriptor) {
  const int kind = descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind, descriptor, 0);
  if (data == MAP_FAILED) {
    return LimitExceeded(fmt::format("{} bytes of memory for communication are needed, {}", bytes, std::strerror(errno)));
  }
  return static_cast<std::byte*>(data);
}

}  // namespace

Result<Arena> Arena::Create(int members, std::size_t slot_bytes, int descriptor) {
  if (members < 1 || members > static_cast<int>(kMembersMax)) {
    return InvalidArgument(fmt::format("1 to {} ranks can share memory, found {}", kMembersMax, members));
  }
  const auto total = TotalBytes(static_cast<std::uint64_t>(members), slot_bytes);
  if (!total) {
    return InvalidArgument(fmt::format("slots of a multiple of {} bytes, less than 1 GiB, are expected, found {}", kUnit, slot_bytes));
  }
  if (descriptor >= 0) {
    if (ftruncate(descriptor, static_cast<off_t>(*total)) != 0 || fcntl(descriptor, F_ADD_SEALS, kSeals) != 0) {
      return LimitExceeded(fmt::format("{} bytes of shared memory are needed, {}", *total, std::strerror(errno)));
    }
  }
  SKEIN_ASSIGN_OR_RETURN(std::byte* data, Map(*total, descriptor));
  Header header = {kMagic, kVersion, static_cast<std::uint32_t>(members), slot_bytes, *total, 0};
  header.crc = CrcOf(header);
  std::memcpy(data, &header, sizeof header);
  // Fresh memory is zero, which is what all but flags and lines begin as.
  auto* flags = reinterpret_cast<Flag*>(data + FlagsOffset(header.members));
  for (int i = 0; i < members * members; ++i) new (flags + i) Flag;
  auto* lines = reinterpret_cast<Line*>(data + LinesOffset(header.members));
  for (std::size_t i = 0; i < LinesPerPair(header.members) * header.members * header.members; ++i) new (lines + i) Line;
  return Arena(data, *total, members, slot_bytes, descriptor, descriptor >= 0);
}

Result<Arena> Arena::InProcess(int members, std::size_t slot_bytes) { return Create(members, slot_bytes, -1); }

Result<Arena> Arena::Shared(int members, std::size_t slot_bytes) {
  const int descriptor = memfd_create("skein-ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) {
    return MissingError(fmt::format("shared memory without a name (memfd) is needed, {}; use --transport threads", std::strerror(errno)));
  }
  Result<Arena> arena = Create(members, slot_bytes, descriptor);
  if (!arena.ok()) close(descriptor);
  return arena;
}

Result<Arena> Arena::Attach(int descriptor) {
  struct stat info = {};
  if (fstat(descriptor, &info) != 0) return Refused(fmt::format("found no open file ({})", std::strerror(errno)));
  if (info.st_size < static_cast<off_t>(sizeof(Header))) return Refused(fmt::format("found {} bytes", info.st_size));
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return Refused("found a file that can shrink");
  Header header = {};
  if (pread(descriptor, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) return Refused("found one that cannot be read");
  if (header.magic != kMagic) return Refused("found something else");
  if (header.version != kVersion) return Refused(fmt::format("found version {} instead of {}", header.version, kVersion));
  if (header.crc != CrcOf(header)) return Refused("found a damaged header");
  if (header.members < 1 || header.members > kMembersMax) return Refused(fmt::format("found {} members", header.members));
  const auto total = TotalBytes(header.members, header.slot_bytes);
  if (!total || *total != header.total_bytes || info.st_size != static_cast<off_t>(*total)) {
    return Refused(fmt::format("found {} bytes where its header says {}", info.st_size, header.total_bytes));
  }
  SKEIN_ASSIGN_OR_RETURN(std::byte* data, Map(*total, descriptor));
  return Arena(data, *total, static_cast<int>(header.members), header.slot_bytes, -1, /*shared=*/true);
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, total_bytes_);
  if (descriptor_ >= 0) close(descriptor_);
}

bool Arena::TakeMember(int member) {
  auto* taken = reinterpret_cast<std::atomic<std::uint32_t>*>(data_ + kTakenOffset);
  return taken[member].exchange(1) == 0;
}

Failure& Arena::failure() { return *std::launder(reinterpret_cast<Failure*>(data_ + kFailureOffset)); }

Flag& Arena::FlagOf(int writer, int reader) {
  auto* flags = reinterpret_cast<Flag*>(data_ + FlagsOffset(static_cast<std::uint64_t>(members_)));
  return flags[writer * members_ + reader];
}

Line* Arena::LinesFor(int writer, int reader) {
  auto* lines = reinterpret_cast<Line*>(data_ + LinesOffset(static_cast<std::uint64_t>(members_)));
  return lines + LinesPerPair(static_cast<std::uint64_t>(members_)) * static_cast<std::size_t>(writer * members_ + reader);
}

std::byte* Arena::SlotsOf(int member) {
  return data_ + SlotsOffset(static_cast<std::uint64_t>(members_)) + SlotsBytes() * static_cast<std::size_t>(member);
}

}  // namespace skein::comm
