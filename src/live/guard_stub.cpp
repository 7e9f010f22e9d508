#include "live/live.hpp"
void SettleLandedRows(void) {}
void InitLiveGuard(void) {}
bool IsGuardTriggerFunction(Oid) { return false; }
