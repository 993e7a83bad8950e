// SPDX-License-Identifier: Apache-2.0
#include "text/normalizer.h"

#include "text/unicode.h"

namespace skein::text {

std::string Normalizer::Apply(std::string_view text) const { return Apply(text, TrustMap(), 0, nullptr); }

// Run by run: a run is a character and what may melt into it, so its normal form does not depend on its neighbours.
std::string Normalizer::Apply(std::string_view text, const TrustMap& trust, std::size_t trust_offset,
                              TrustMap* result_trust) const {
  std::string result;
  result.reserve(text.size() + text.size() / 8);
  std::u32string run;
  std::string composed;
  for (std::size_t place = 0; place < text.size();) {
    const std::size_t begin = place;
    run.clear();
    while (place < text.size()) {
      const Decoded found = DecodeUtf8(text, place);
      if (place > begin && (!nfc || StartsRun(found.code_point))) break;
      run.push_back(found.code_point);
      place += found.bytes;
    }
    const std::size_t size_before = result.size();
    if (!nfc) {
      AppendLowercase(run[0], result);
    } else if (!lowercase) {
      AppendNfc(run, result);
    } else {
      composed.clear();
      AppendNfc(run, composed);
      for (std::size_t at = 0; at < composed.size();) {
        const Decoded found = DecodeUtf8(composed, at);
        AppendLowercase(found.code_point, result);
        at += found.bytes;
      }
    }
    if (result_trust != nullptr) {
      result_trust->Append(result.size() - size_before, trust.Covers(trust_offset + begin, trust_offset + place));
    }
  }
  return result;
}

}  // namespace skein::text
