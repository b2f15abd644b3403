// Handles: the unique text names of budgets, beside their ids.

/** What a handle is, for people. */
export const HANDLE_WORDS = "1 to 128 of A-Z a-z 0-9 . _ / : @ -, of which one is no digit";

export const isHandle = (text: string): boolean => /^[A-Za-z0-9._/:@-]{1,128}$/.test(text) && /\D/.test(text);

/** Budgets from here on were made from templates: nobody else chooses such an id. */
const MADE_FROM = 2n ** 62n;

export const isMade = (id: string): boolean => BigInt(id) >= MADE_FROM;
