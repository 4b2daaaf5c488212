export const isBundle = () => false;
export const verifyBundle = () => null;
