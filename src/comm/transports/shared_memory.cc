// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/shared_memory.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <numeric>

#include "kernels/threads/pause.h"

namespace skein::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kSpin = std::chrono::microseconds(50);
constexpr int kLooksWithoutPause = 32;  // a peer that is in step answers before a pause ends
// Then pauses, about a microsecond of them: what takes longer is measured as waiting.
constexpr int kLooksWithoutClock = 16;
constexpr int kLooksPerClock = 128;
constexpr std::size_t kPreparedBytes = 16 << 10;  // half a first-level cache
// A poster looks for sleepers without a fence, so a wake-up may be lost in the moment when both act; the first sleep is
// short enough to make that good, and by its end the sleeper's flag is seen by everybody.
constexpr auto kFirstSleep = std::chrono::microseconds(200);
// Longer than this nobody sleeps without looking whether a peer has given up.
constexpr auto kLongestSleep = std::chrono::milliseconds(20);

// Asks for a line in a state in which it can be written. (The compiler's builtin only reads without -mprfchw.)
void FetchToWrite(const std::byte* line) {
#if defined(__x86_64__)
  __asm__ volatile("prefetchw %0" : : "m"(*line));
#else
  __builtin_prefetch(line, /*rw=*/1);
#endif
}

// Whether message number `count` is among the first `reached`; numbers wrap.
bool Reached(std::uint32_t reached, std::uint32_t count) { return static_cast<std::int32_t>(reached - count) >= 0; }

}  // namespace

Result<std::unique_ptr<Transport>> SharedMemoryTransport::Create(Arena& arena, int member, TransportOptions options) {
  if (member < 0 || member >= arena.members()) {
    return InvalidArgument(fmt::format("a member from 0 to {} was expected, found {}", arena.members() - 1, member));
  }
  if (!options.ranks.empty() && static_cast<int>(options.ranks.size()) != arena.members()) {
    return InvalidArgument(fmt::format("{} ranks have memory, found {} in the group", arena.members(), options.ranks.size()));
  }
  if (!arena.TakeMember(member)) return InvalidArgument(fmt::format("member {} of the group is there already", member));
  return std::unique_ptr<Transport>(new SharedMemoryTransport(arena, member, std::move(options)));
}

SharedMemoryTransport::SharedMemoryTransport(Arena& arena, int member, TransportOptions options)
    : Transport(arena.shared() ? "shm" : "threads", member, arena.members(), arena.slot_bytes(), std::move(options)),
      arena_(arena), slots_(arena.SlotsOf(member)), short_bytes_(ShortBytes(arena.members())), lines_(LinesOf(arena.members())) {
  for (int peer = 0; peer < size(); ++peer) {
    peers_.push_back({&arena.FlagOf(member, peer), &arena.FlagOf(peer, member), arena.SlotsOf(peer), arena.LinesFor(member, peer), arena.LinesFor(peer, member)});
  }
  short_buffers_.resize(static_cast<std::size_t>(size()) * kSlots * (short_bytes_ + kSlack));
  std::iota(order_.begin(), order_.end(), 0);
  for (auto& addressees : addressees_) addressees.reserve(static_cast<std::size_t>(size()));
  std::memset(slots_, 0, arena.SlotsBytes());  // pages on this member's memory node
}

bool SharedMemoryTransport::SomebodyGaveUp() {
  const std::uint32_t lost = arena_.failure().lost.load(std::memory_order_acquire);
  if (lost == 0) return false;
  const std::uint32_t reporter = arena_.failure().reporter.load(std::memory_order_relaxed);
  const int member = static_cast<int>(std::min<std::uint32_t>(lost, static_cast<std::uint32_t>(size()))) - 1;
  if (reporter == 0 || reporter > static_cast<std::uint32_t>(size())) {
    FailAt(member, "was given up by another one");
  } else {
    FailAt(member, fmt::format("was given up by rank {}", NameOf(static_cast<int>(reporter) - 1)));
  }
  return true;
}

void SharedMemoryTransport::GiveUp(int peer, std::string_view problem) {
  FailAt(peer, problem);
  Failure& failure = arena_.failure();
  std::uint32_t nobody = 0;
  failure.reporter.store(static_cast<std::uint32_t>(self()) + 1, std::memory_order_relaxed);
  failure.lost.compare_exchange_strong(nobody, static_cast<std::uint32_t>(peer) + 1, std::memory_order_acq_rel);
}

template <typename Ready>
bool SharedMemoryTransport::WaitFor(int peer, const std::atomic<std::uint32_t>& word, Ready ready) {
  if (ready()) [[likely]] return true;
  if (failed()) return false;
  if (options().spin && !beside()) {
    for (int i = 0; i < kLooksWithoutPause; ++i) {
      if (ready()) return true;
    }
    for (int i = 0; i < kLooksWithoutClock; ++i) {
      kernels::Pause();
      if (ready()) return true;
    }
  }
  return SleepUntil(peer, word, ready);
}

template <typename Ready>
[[gnu::noinline]] bool SharedMemoryTransport::SleepUntil(int peer, const std::atomic<std::uint32_t>& word, Ready ready) {
  const Clock::time_point begin = Clock::now();
  const Clock::time_point deadline = begin + options().timeout;
  while (options().spin && !beside() && Clock::now() < begin + kSpin) {
    for (int i = 0; i < kLooksPerClock; ++i) {
      kernels::Pause();
      if (!ready()) continue;
      CountWaited(Clock::now() - begin);
      return true;
    }
  }
  // Nobody sleeps while others may wait for its acknowledgements.
  Settle();
  Peer& state = peers_[static_cast<std::size_t>(peer)];
  std::chrono::nanoseconds sleep = kFirstSleep;
  bool success = false;
  for (;;) {
    state.mine->sleeping.store(1, std::memory_order_seq_cst);
    const std::uint32_t seen = word.load(std::memory_order_seq_cst);
    success = ready();
    if (success || SentOtherKind(peer, word) || SomebodyGaveUp()) break;
    const Clock::time_point now = Clock::now();
    if (now >= deadline) {
      GiveUp(peer, fmt::format("did not answer within {} ms; it has ended, hangs or is much slower",
                               std::chrono::duration_cast<std::chrono::milliseconds>(options().timeout).count()));
      break;
    }
    const std::chrono::nanoseconds nap = std::min<std::chrono::nanoseconds>(sleep, deadline - now);
    const timespec time = {static_cast<time_t>(nap.count() / 1000000000), static_cast<long>(nap.count() % 1000000000)};
    syscall(SYS_futex, &word, arena_.shared() ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, seen, &time, nullptr, 0);
    sleep = std::min<std::chrono::nanoseconds>(sleep * 4, kLongestSleep);
  }
  state.mine->sleeping.store(0, std::memory_order_relaxed);
  CountWaited(Clock::now() - begin);
  return success;
}

bool SharedMemoryTransport::SentOtherKind(int peer, const std::atomic<std::uint32_t>& word) {
  const Peer& state = peers_[static_cast<std::size_t>(peer)];
  if (&word == &state.theirs->released) return false;
  const std::uint32_t wanted = state.awaited + 1;
  const Line& line = state.their_lines[static_cast<std::size_t>(state.awaited % kSlots) * static_cast<std::size_t>(lines_)];
  // In this order: a short message is seen no later than a long one behind it.
  const bool as_long = Reached(state.theirs->posted.load(std::memory_order_acquire), wanted);
  const bool as_short = line.message.load(std::memory_order_acquire) == wanted;
  if (&word == &state.theirs->posted ? !as_short : as_short || !as_long) return false;
  GiveUp(peer, "sent a message of another size than was expected; ranks must run the same program with the same options");
  return true;
}

void SharedMemoryTransport::Wake(Peer& peer, std::atomic<std::uint32_t>& word) {
  if (peer.theirs->sleeping.load(std::memory_order_relaxed) == 0) [[likely]] return;
  syscall(SYS_futex, &word, arena_.shared() ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

bool SharedMemoryTransport::WaitUntilRead(int peer, std::uint32_t message) {
  Peer& state = peers_[static_cast<std::size_t>(peer)];
  if (Reached(state.acknowledged, message)) [[likely]] return true;
  return WaitFor(peer, state.theirs->released, [&] {
    state.acknowledged = state.theirs->released.load(std::memory_order_acquire);
    return Reached(state.acknowledged, message);
  });
}

bool SharedMemoryTransport::IsRead(int slot) const {
  for (const Addressee& addressee : addressees_[static_cast<std::size_t>(slot)]) {
    if (!Reached(peers_[static_cast<std::size_t>(addressee.peer)].acknowledged, addressee.message)) return false;
  }
  return true;
}

int SharedMemoryTransport::NextSlot() const {
  for (int place = 1; place < kSlots; ++place) {
    if (IsRead(order_[static_cast<std::size_t>(place)])) return place;
  }
  return kSlots - 1;
}

std::byte* SharedMemoryTransport::Open() {
  if (failed()) return nullptr;
  const auto place = order_.begin() + NextSlot();
  auto& addressees = addressees_[static_cast<std::size_t>(*place)];
  for (const Addressee& addressee : addressees) {
    if (!WaitUntilRead(addressee.peer, addressee.message)) return nullptr;
  }
  addressees.clear();
  std::rotate(order_.begin(), place, place + 1);
  return slots_ + arena_.SlotStride() * static_cast<std::size_t>(order_.front());
}

void SharedMemoryTransport::Prepare(std::size_t bytes) {
  if (IsShort(bytes)) {
    for (const Peer& peer : peers_) {
      const Line* line = peer.my_lines + static_cast<std::size_t>(peer.posted % kSlots) * static_cast<std::size_t>(lines_);
      for (std::size_t at = 0; at < bytes + sizeof(ShortHeader); at += Line::kBytes) FetchToWrite(reinterpret_cast<const std::byte*>(line++));
    }
    return;
  }
  const std::byte* slot = slots_ + arena_.SlotStride() * static_cast<std::size_t>(order_[static_cast<std::size_t>(NextSlot())]);
  for (std::size_t at = 0; at < std::min(bytes, kPreparedBytes); at += 64) FetchToWrite(slot + at);
}

bool SharedMemoryTransport::Post(int peer, const std::byte* slot, std::size_t begin, std::size_t end) {
  if (failed()) return false;
  Peer& state = peers_[static_cast<std::size_t>(peer)];
  // Its place in the flag and among the lines must be free.
  if (!WaitUntilRead(peer, state.posted + 1 - kSlots)) return false;
  CountPosted(end - begin);
  if (IsShort(end - begin)) return PostShort(peer, begin == end ? nullptr : slot + begin, end - begin);
  state.mine->message[state.posted % kSlots] = {static_cast<std::uint32_t>(slot - slots_ + begin), static_cast<std::uint32_t>(end - begin)};
  ++state.posted;
  addressees_[static_cast<std::size_t>(order_.front())].push_back({peer, state.posted});
  state.mine->released.store(state.released, std::memory_order_relaxed);
  state.told = state.released;
  state.mine->posted.store(state.posted, std::memory_order_release);
  Wake(state, state.mine->posted);
  return true;
}

bool SharedMemoryTransport::PostShort(int peer, const std::byte* from, std::size_t bytes) {
  Peer& state = peers_[static_cast<std::size_t>(peer)];
  Line* const first = state.my_lines + static_cast<std::size_t>(state.posted % kSlots) * static_cast<std::size_t>(lines_);
  ++state.posted;
  state.told = state.released;
  const ShortHeader header = {static_cast<std::uint32_t>(bytes), state.released};
  std::memcpy(first->bytes, &header, sizeof header);
  constexpr std::size_t kFirstBytes = Line::kBytes - sizeof header;
  if (bytes != 0) std::memcpy(first->bytes + sizeof header, from, std::min(bytes, kFirstBytes));
  first->message.store(state.posted, std::memory_order_release);
  Line* line = first + 1;
  for (std::size_t at = kFirstBytes; at < bytes; at += Line::kBytes, ++line) {
    if (bytes - at >= Line::kBytes) [[likely]] {
      std::memcpy(line->bytes, from + at, Line::kBytes);
    } else {
      std::memcpy(line->bytes, from + at, bytes - at);
    }
    line->message.store(state.posted, std::memory_order_release);
  }
  Wake(state, first->message);
  return true;
}

void SharedMemoryTransport::TellSizes(int peer, std::size_t found, std::size_t expected) {
  GiveUp(peer, fmt::format("sent {} bytes where {} were expected; ranks must run the same program with the same options", found, expected));
}

std::byte* SharedMemoryTransport::ShortBuffer(int peer, std::uint32_t message) {
  return short_buffers_.data() + (static_cast<std::size_t>(peer) * kSlots + message % kSlots) * (short_bytes_ + kSlack);
}

const std::byte* SharedMemoryTransport::AwaitShort(int peer, std::size_t bytes) {
  Peer& state = peers_[static_cast<std::size_t>(peer)];
  const std::uint32_t wanted = state.awaited + 1;
  const Line* line = state.their_lines + static_cast<std::size_t>(state.awaited % kSlots) * static_cast<std::size_t>(lines_);
  const auto arrives = [&](const Line& one) {
    return WaitFor(peer, one.message, [&] { return one.message.load(std::memory_order_acquire) == wanted; });
  };
  if (!arrives(*line)) return nullptr;
  ShortHeader header;
  std::memcpy(&header, line->bytes, sizeof header);
  if (header.bytes != bytes) [[unlikely]] {
    TellSizes(peer, header.bytes, bytes);
    return nullptr;
  }
  state.acknowledged = header.released;
  std::byte* const buffer = ShortBuffer(peer, state.awaited);
  constexpr std::size_t kFirstBytes = Line::kBytes - sizeof header;
  std::memcpy(buffer, line->bytes + sizeof header, kFirstBytes);
  for (std::size_t at = kFirstBytes; at < bytes; at += Line::kBytes) {
    if (!arrives(*++line)) return nullptr;
    std::memcpy(buffer + at, line->bytes, Line::kBytes);  // the last one into the slack
  }
  state.awaited = wanted;
  return buffer;
}

const std::byte* SharedMemoryTransport::Await(int peer, std::size_t bytes) {
  if (failed()) return nullptr;
  if (IsShort(bytes)) return AwaitShort(peer, bytes);
  Peer& state = peers_[static_cast<std::size_t>(peer)];
  const std::uint32_t wanted = state.awaited + 1;
  if (!WaitFor(peer, state.theirs->posted, [&] { return Reached(state.theirs->posted.load(std::memory_order_acquire), wanted); })) {
    return nullptr;
  }
  state.acknowledged = state.theirs->released.load(std::memory_order_acquire);
  const Flag::Message message = state.theirs->message[state.awaited % kSlots];
  if (message.bytes != bytes || message.offset > arena_.SlotsBytes() || message.bytes > arena_.SlotsBytes() - message.offset) [[unlikely]] {
    TellSizes(peer, message.bytes, bytes);
    return nullptr;
  }
  state.awaited = wanted;
  return state.slots + message.offset;
}

void SharedMemoryTransport::Tell(Peer& peer) {
  if (peer.told == peer.released) return;
  peer.told = peer.released;
  peer.mine->released.store(peer.released, std::memory_order_release);
  Wake(peer, peer.mine->released);
}

void SharedMemoryTransport::Release(int peer, Acknowledge when) {
  Peer& state = peers_[static_cast<std::size_t>(peer)];
  ++state.released;
  if (when == Acknowledge::kNow) Tell(state);
}

void SharedMemoryTransport::Settle() {
  for (Peer& peer : peers_) Tell(peer);
}

}  // namespace skein::comm
